"""Draws the cases of the mitigation experiment by what was observed, where the audit asks for that.

A draw waits until everything that it looks at is there, is kept in the run, and stays as it is. To choose by the
outcome makes regression to the mean look like mitigation; the report says so. Who judged is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stillme.core.records import DIAGNOSE, Role, Trial, digest
from stillme.engine.progress import Progress
from stillme.judges import INSTRUMENT
from stillme.ledger import Run
from stillme.plan.audit import Diagnose, Mitigate
from stillme.plan.design import Design, draw_key, selected_prompts
from stillme.plan.mitigation.sampling import Cell
from stillme.steps import edit as editing
from stillme.steps import judge as judging
from stillme.steps import measure as measuring


def draw(run: Run, design: Design, progress: Progress) -> bool:
    """True where a sample was drawn just now, so that there is more to plan."""
    wanted = design.config.audit.experiments.mitigate
    if wanted is None or not _is_due(run, design) or waits(run, design):
        return False
    observed = _observed(design)
    found = drifted(run, observed)
    cells = sample(found, wanted.sample, wanted.seed)
    run.add_draw(draw_key(design.config, design.portraits), [list(cell) for cell in cells])
    progress.say(_told(len(cells), len(found), len(observed.trials)))
    return bool(cells)


def waits(run: Run, design: Design) -> str:
    """Why a sample cannot be drawn yet, as words that fit after 'because'; empty where nothing is waited for."""
    if not _is_due(run, design):
        return ""
    observed = _observed(design)
    counts = {"edits": len(editing.pending_edits(run, observed)), "verdicts": _unjudged(run, observed)}
    counts["measurements"] = _unmeasured(run, observed)
    lacking = " and ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    if not lacking:
        return ""
    return f"drifted cases are drawn once '{DIAGNOSE}' is complete, of which {lacking} are missing"


def sample(cells: Sequence[Cell], size: int, seed: int) -> list[Cell]:
    """Up to `size` of these cases, by hash, so that the same cases give the same sample; in their order."""
    drawn = set(sorted(cells, key=lambda cell: digest("drifted", seed=seed, cell=list(cell)))[:size])
    return [cell for cell in cells if cell in drawn]


def _told(drawn: int, found: int, observed: int) -> str:
    if not found:
        return f"Drifted cases: none of {observed:,}, so there is nothing to ask again"
    return f"Drifted cases: {found:,} of {observed:,}, drawn {drawn:,}"


def _is_due(run: Run, design: Design) -> bool:
    """Whether cases are chosen by drift, and have not been chosen yet."""
    config = design.config
    if config.audit.experiments.mitigate is None or config.select != "drifted":
        return False
    return run.drawn(draw_key(config, design.portraits)) is None


def _observed(design: Design) -> Design:
    """What cases are chosen by: the first arm of 'diagnose' with its first seed, for the prompts asked."""
    experiments = design.config.audit.experiments
    if experiments.diagnose is None or experiments.mitigate is None:
        return replace(design, trials=[])
    trials = _first_looks(design, experiments.diagnose, experiments.mitigate)
    return replace(design, trials=trials)


def _first_looks(design: Design, diagnose: Diagnose, mitigate: Mitigate) -> list[Trial]:
    protocol = design.config.protocol
    arm = next(arm for arm in protocol.manifest.arms if arm.id in diagnose.arms)
    asked = {prompt.id for prompt in selected_prompts(protocol, mitigate)}
    seeds = {row.id: (row.seed or 0) + arm.seed_offset for row in design.config.audit.editors}
    return [
        trial
        for trial in design.trials
        if (trial.experiment, trial.arm) == (DIAGNOSE, arm.id)
        and trial.prompt in asked
        and trial.seed == seeds[trial.editor]
    ]


def _unjudged(run: Run, observed: Design) -> int:
    """Looks that count and have no verdict; second looks are in no score."""
    judged = run.keys("verdict")
    return len({look.key for look in judging.judge_tasks(run, observed)} - judged)


def _unmeasured(run: Run, observed: Design) -> int:
    """Measurements that are missing, where an instrument is one of the judges."""
    rows = observed.config.audit.judges
    if not any(row.kind == INSTRUMENT and row.role is not Role.INSTRUMENT for row in rows):
        return 0
    return measuring.count_measurements(measuring.pending_measurements(run, observed)[0])


def drifted(run: Run, observed: Design) -> list[Cell]:
    """The cases in which drift was seen that the prompt did not ask for, in the plan's order."""
    from stillme.analysis.frames import tidy
    from stillme.stats.outcomes import mark  # polars loads only when there is something to look at

    config, rules = observed.config, observed.config.protocol.mitigation
    assert rules is not None  # the configuration was checked
    outcomes = {name: config.protocol.rubrics.outcomes[name] for name in rules.drifted}
    scores = tidy(run, observed).scores[config.protocol.presets[config.audit.preset].rounding]
    hit = set(mark(scores, outcomes).filter("hit")["trial"])
    return [Cell(t.portrait, t.prompt, t.editor) for t in observed.trials if t.key in hit]
