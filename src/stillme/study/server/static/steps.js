// What the steps around the evaluation add where there are scripts: nothing that a page could not do without.
"use strict";

/** The start button waits for the ticks; the server checks them in any case. */
function waitForTicks() {
  const form = /** @type {HTMLFormElement | null} */ (document.getElementById("consent"));
  const agree = /** @type {HTMLButtonElement | null} */ (document.getElementById("agree"));
  if (!form || !agree) return;
  const look = () => { agree.disabled = !form.checkValidity(); };
  form.addEventListener("change", look);
  addEventListener("pageshow", look); // a browser may fill in ticks when it goes back
  look();
}

/** A form that was sent is not sent again by a second click. */
function sendOnce() {
  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (form.hasAttribute("data-sent")) event.preventDefault();
      form.setAttribute("data-sent", "");
    });
    addEventListener("pageshow", () => form.removeAttribute("data-sent"));
  }
}

function offerCopy() {
  const button = document.getElementById("copy");
  const code = document.getElementById("code");
  const said = document.getElementById("copied");
  if (!button || !code || !said || !navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent ?? "");
      said.textContent = "Copied";
    } catch {
      said.textContent = "Please copy it by hand";
    }
  });
}

/** Back to Prolific after some seconds; any sign that somebody is still at the page stops it for good. */
function goBack() {
  const back = /** @type {HTMLAnchorElement | null} */ (document.getElementById("back"));
  const line = document.getElementById("returning");
  const left = document.getElementById("left");
  if (!back || !line || !left || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  let seconds = Number(line.dataset.seconds);
  const signs = ["keydown", "pointerdown", "wheel", "touchstart"];
  const show = () => { left.textContent = `${seconds}\u00a0s`; };
  const timer = setInterval(() => {
    seconds -= 1;
    show();
    if (seconds > 0) return;
    stop();
    location.assign(back.href);
  }, 1000);
  const stop = () => {
    clearInterval(timer);
    line.textContent = "You stay on this page until you go.";
    for (const sign of signs) removeEventListener(sign, stop);
  };
  show();
  line.hidden = false;
  for (const sign of signs) addEventListener(sign, stop, { passive: true });
}

waitForTicks();
sendOnce();
offerCopy();
goBack();
