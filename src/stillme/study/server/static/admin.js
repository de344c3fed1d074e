// @ts-check
/* The overview keeps itself up to date. Without this script its reload link does the same. */

const EVERY = 15_000;

/**
 * A part that somebody is in stays as it is until they have left it.
 * @param {Document} page
 */
function take(page) {
  for (const part of document.querySelectorAll('[data-live]')) {
    const fresh = page.getElementById(part.id);
    if (fresh && !part.contains(document.activeElement)) part.replaceChildren(...fresh.childNodes);
  }
  tell();
}

function tell() {
  document.querySelector('[data-every]')?.removeAttribute('hidden');
}

/** @param {boolean} is */
function trouble(is) {
  document.getElementById('trouble')?.toggleAttribute('hidden', !is);
}

async function update() {
  if (document.hidden) return;
  try {
    const answer = await fetch('/admin', { redirect: 'error' });
    if (!answer.ok) throw new Error(String(answer.status));
    take(new DOMParser().parseFromString(await answer.text(), 'text/html'));
    trouble(false);
  } catch {
    trouble(true);
  }
}

tell();
setInterval(update, EVERY);
