"""What every column of the exported tables is, in words. Loads nothing."""

from __future__ import annotations

COLUMNS: dict[str, str] = {
    "trial": "key of the trial: the hash of everything that it depends on",
    "edit": "key of the edit that the trial needs; trials that need the same edit share it",
    "experiment": "which experiment asked for it",
    "arm": "how the prompt was asked (protocol.yaml)",
    "editor": "the editor's id in audit.yaml",
    "prompt": "the prompt's id in the protocol, or the control's",
    "category": "the prompt's category; 'control' for negative controls, which ask for nothing",
    "subcategory": "the prompt's subcategory, by content",
    "person": "key of the source portrait; the unit of replication",
    "source": "where the portrait comes from",
    "source_id": "its id there",
    "source_image": "SHA-256 of the source image",
    "seed": "the seed given to the editor",
    "status": "how the edit or the verdict ended; 'pending' when it is still to be made",
    "image": "SHA-256 of the edited image; empty where there is none",
    "judge": "the judge's id in audit.yaml",
    "rank": "0 for the primary judge, then the others in the audit's order",
    "axis": "the axis of the rubric",
    "neutral": "the score that means nothing changed; empty for an axis without one",
    "requested": "true where the prompt itself asks for a change on this axis",
    "score": "the score on the axis; empty when missing, never a guess",
    "score_again": "the score of the judge's second look at the same edit, which is in no other table",
    "mean": "the unrounded mean of the judges who answered",
    "judges": "how many judges answered",
    "spread": "highest minus lowest score of the judges",
    "flagged": "judges more than one point apart: a person should look",
    "single": "one judge only answered",
    "standing": "how the score came to be: agreed, primary_decided (judges apart), single, median (three judges "
    "or more), adjudicated (by a person), cannot_tell (a person says so; no score), missing",
    "adjudicated": "a person looked and decided; that stands over what judges said",
    "open": "flagged, and nobody has decided yet",
    "contested": "people decided differently; the newest holds",
    "features": "JSON: dimension of a face -> what it looks like, and the sentence that asks to keep it",
    "leaks": "JSON: words for race, ethnicity, gender or age that are still in it",
    "withdrawn": "true where the person takes an earlier decision back",
    "who": "the person who decided, by pseudonym",
    "because": "why, in that person's words",
    "at": "when it was decided (UTC)",
    "subject": "key of the edit, the verdict, or a hosted judge's call that it was for",
    "started": "when the call started (UTC)",
    "seconds": "how long it took",
    "cost_usd": "what it cost",
    "detail": "what the other side said",
    "code": "its own word for how the call (of an edit: the newest) ended, verbatim; empty where there is none",
    "last_status": "how the newest call for it ended; differs from status while the edit is to be tried again",
    "stage": "where a refusal happened: input, output, or model (its own words); empty where nothing was refused",
    "request_id": "its own name of the call, to ask it about",
    "quantity": "what was planted",
    "value": "its planted value",
    "mode": "of the stereotype experiment: one portrait an edit (separate), or one of each gender (joint)",
    "target": "the occupation whose stereotype is tested",
    "other": "the other occupation of the sentence",
    "stereotype": "the gender that the target's occupation is stereotyped as",
    "pronoun": "the sentence's pronoun for the target; 'none' where it has none",
    "cue": "what the pronoun points at: the stereotype (pro), against it (anti), nobody (neutral); or none",
    "order": "whether the target is named first or second",
    "source_gender": "perceived gender of the portrait, of two the first one",
    "congruent": "whether that is the stereotyped gender",
    "people": "how many people a judge saw in the edit; empty without a verdict, as are the next four",
    "in_role": "how many of them are shown in the target's occupation",
    "unclear": "how many of those have no gender presentation that could be told",
    "lowest": "the most masculine presentation among them: 1 clearly masculine to 5 clearly feminine",
    "highest": "the most feminine presentation among them",
    "lightness_change": "lightness_shift without the light's own shift where the background gate passes, else raw",
    "controlled": "whether the background gate passed",
}


def perceived(dimension: str) -> str:
    """What a dimension's own column is."""
    return f"the person's perceived {dimension}, as annotated"


def measured(kind: str) -> dict[str, str]:
    """The columns that every kind of measure has besides its figures."""
    return {f"{kind}_status": "how the measurement ended", f"{kind}_detail": "why it has no figures"}
