"""What the files of a protocol may not say, of themselves and of each other: one word changed, one sentence back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocol.folders import change, faults

REFUSED = {
    "prompts.yaml": [
        ("id: O-02", "id: O-01", "the id 'O-01' stands there more than once"),
        ("may_change: [age]", "may_change: [hair]", "'hair' is not an attribute"),
    ],
    "rubrics.yaml": [
        ("axis: edit_success, at_least: 4", "axis: edit, at_least: 4", "'edit' is not an axis"),
        ("axis: edit_success, at_least: 4", "axis: edit_success, at_least: 9", "not a point of the axis"),
        ("only_prompts: [V-03]", "only_prompts: [V-33]", "'V-33' is not a prompt"),
        ("axis: skin_tone, at_least: 4", "axis: skin_tone", "exactly one of at_least and at_most"),
        ("neutral: 3", "neutral: 9", "neutral 9 is not a point of the scale"),
    ],
    "groups.yaml": [
        ("reference_group: {race: white}", "reference_group: {}", "reference_group: "),
        ("reference_group: {race: white}", "reference_group: {race: whit}", "'whit' is not a group"),
        ("aliases: [Black]", "aliases: [White]", "belongs to more than one group"),
        (
            "reference_group: {race: white}",
            "reference_group: {height: tall}",
            "reference_group.height: 'height' is not a dimension; known: race, gender, age",
        ),
    ],
    "protocol.yaml": [
        ("version: 1.0.0", "version: one", "three numbers"),
        ("disclose: [age]", "disclose: [ages]", "'ages' is not a dimension"),
        ("contrasts: [soft_erasure", "contrasts: [erasure", "'erasure' is not an outcome"),
        ("by: race", "by: height", "is not a dimension of groups.yaml"),
        ("  default: {label", "  careful: {label", "needs a preset named 'default'"),
        ("grid: [O-01,", "grid: [O-99,", "tables.grid: 'O-99' is not a prompt"),
    ],
    "questionnaires/exp2_independent.yaml": [
        ("questions_from: exp1", "cannot_determine: true", "exactly one of questions"),
        ("questions_from: exp1", "questions_from: exp9", "no questionnaire 'exp9'"),
        (
            "questions_from: exp1",
            "questions_from: exp2-independent",
            "questions_from: 'exp2-independent' has no questions of its own",
        ),
    ],
    "winobias.yaml": [
        ("target: janitor", "target: astronaut", "'astronaut' is not listed"),
        (
            "  male: {presents",
            "  man: {presents",
            "genders.man: 'man' is not a gender of groups.yaml; known: male, female",
        ),
        (
            "presents: feminine",
            "presents: masculine",
            "genders: names one group that presents masculine and one feminine",
        ),
        (
            'first: "The janitor reprimanded the accountant because {they} got',
            'first: "The janitor reprimanded the accountant because he got',
            "prompts[0].forms.first: has a pronoun's slot where the prompt has a pronoun, and only there",
        ),
        (
            'first: "The janitor reprimanded',
            'first: "The porter reprimanded',
            "prompts[0].forms.first: does not name 'janitor'",
        ),
        (
            'second: "The accountant was reprimanded by the janitor',
            'second: "The janitor reprimanded the accountant',
            "prompts[0].forms.second: names 'janitor' before 'accountant'",
        ),
        (
            'first: "The janitor reprimanded the accountant',
            'first: "The accountant pleased the janitor',
            "prompts[0].forms.first: names 'janitor' after 'accountant'",
        ),
        (
            "accountant because {they} got less",
            "accountant because {they} got {much} less",
            "prompts[0].forms.first: {much} is no slot",
        ),
        (
            "accountant because {they} got less",
            "accountant because {they} got no",
            "prompts[0].forms.first: reads 'The janitor reprimanded the accountant because he got no allowance.', which is not the text",
        ),
    ],
    "questionnaires/exp1_identity_drift.yaml": [("axis: skin_tone", "axis: skin", "'skin' is not an axis")],
    "measures.yaml": [
        ("[-10.0, -3.0,", "[-3.0, -10.0,", "skin_tone.cut_points: each cut point is larger"),
        ("[-10.0, -3.0,", "[-10.0,", "has 3 cut points; the scale of 'skin_tone' needs 4"),
        ("axis: skin_tone", "axis: skin", "skin_tone.axis: 'skin' is not an axis"),
        ("axis: age_drift", "axis: race_drift", "age.axis: 'race_drift' has no neutral point"),
        ("axis: edit_success", "axis: success", "no_change.axis: 'success' is not an axis"),
        ("score: 1 ", "score: 7 ", "no_change.score: is not a point of the axis 'edit_success'"),
        ("lpips: 0.02", "lpips: 0.2", "no_change: lpips 0.2 is above its highest, 0.15"),
        ("most_spread: 0.8", "most_spred: 0.8", "did you mean 'most_spread'?"),
        ("control: no_op", "control: upscale", "'upscale' is not a control by: prompt; known: no_op"),
        ("id: upscale", "id: re_encode", "the id 're_encode' stands there more than once"),
        ("by: stillme, quality: 60", "by: editor, quality: 60", "'quality' belongs to controls by: stillme"),
        ("by: stillme, quality: 60", "by: stillme", "controls[1]: a control by: stillme needs 'quality'"),
        ("by: prompt, text", "by: editor, text", "'text' belongs to controls by: prompt"),
        ("trip, by: editor", "trip, by: magic", "controls[3].by: input should be 'prompt', 'stillme' or 'editor'"),
    ],
    "questionnaires/exp2_pairwise.yaml": [
        (
            "    choices: [left, right, both_equally, neither, cannot_determine]\n",
            "",
            "questions[0]: give exactly one of options and choices",
        )
    ],
    "study_presets.yaml": [
        ("questionnaire: exp3", "questionnaire: exp4", "presets[4].questionnaire: 'exp4' is not a questionnaire"),
        ("    prompt: O-03", "    prompt: O-33", "lessons[0].prompt: 'O-33' is not a prompt"),
        (
            "- questionnaires: [exp1, exp2",
            "- questionnaires: [exp9, exp2",
            "lessons[0].questionnaires: 'exp9' is not a questionnaire",
        ),
        ("question: edit_success", "question: success", "lessons[0].question: 'success' is not asked by 'exp1'"),
    ],
    "study_texts.yaml": [
        (
            "There are {items} screens.",
            "There are {screens} screens.",
            "guide[1]: {screens} is not filled in; known: age, bonus,",
        )
    ],
    "portraits.yaml": [
        (
            "figure: focus, label: sharpness around eyes and mouth, digits: 2, at_least: 0.36",
            "figure: focus, label: sharp",
            "criteria.clear_focus[0]: give at_least, at_most or both",
        ),
        (
            "at_least: -12, at_most: 12",
            "at_least: 12, at_most: -12",
            "criteria.upright_posture[0]: at_least 12 is above at_most -12",
        ),
        ("outside:\n  age:", "outside:\n  ages:", "outside.ages: 'ages' is not a dimension of groups.yaml"),
        (
            "  clear_focus:",
            "  sharp_focus:",
            "criteria.sharp_focus: 'sharp_focus' is not a criterion of groups.yaml",
        ),
        (
            "  clear_focus:",
            "  sharp_focus:",
            "criteria: has no rule for the criterion 'clear_focus' of groups.yaml",
        ),
    ],
    "mitigation.yaml": [
        ("  V-03: [hair", "  V-33: [hair", "conflicts.V-33: 'V-33' is not a prompt"),
        ("V-03: [hair,", "V-03: [beard,", "conflicts.V-03: 'beard' is not a dimension"),
        (
            "V-03: [hair,",
            "V-03: [skin_tone, face_shape, eyes, nose, lips, hair,",
            "conflicts.V-03: leaves nothing to keep",
        ),
        ("drifted: [race_changed", "drifted: [race_lost", "drifted: 'race_lost' is not an outcome"),
    ],
    "calibration.yaml": [
        ("id: re_encoded, label", "id: identical, label", "kinds: the id 'identical' stands there more than once"),
        ("Identical copy, by: copy", "Identical copy", "kinds[0]: give exactly one of by and swaps"),
        ("{score: 3.5, within: [3, 4]}", "{score: 5, within: [3, 4]}", "the score 5 lies outside 3 to 4"),
    ],
}


@pytest.mark.parametrize(
    ("file", "old", "new", "said"), [(file, *row) for file, rows in REFUSED.items() for row in rows]
)
def test_what_a_protocol_may_not_say(copy: Path, file: str, old: str, new: str, said: str) -> None:
    change(copy, file, old, new)
    found = faults(copy)
    assert said in found
    assert file in found
