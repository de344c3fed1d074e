"""What the source never does, read off its syntax; each exception is named here with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/stillme"
TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in SOURCE.rglob("*.py")
}
CODE_IN_DATA = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}


@cache
def calls() -> tuple[tuple[str, str, ast.Call], ...]:
    """(file, the name that is called, the call)."""
    return tuple(_calls())


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                yield file, dotted(node.func), node


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name; the start is left out where it is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def words(call: ast.Call) -> dict[str, str]:
    return {word.arg or "**": ast.unparse(word.value) for word in call.keywords}


def imported() -> Iterator[tuple[str, str]]:
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((file, one.name.split(".")[0]) for one in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield file, (node.module or "").split(".")[0]


def test_there_is_source_to_look_at() -> None:
    assert len(TREES) > 300 and len(calls()) > 10_000


def test_no_data_holds_code() -> None:
    assert [one for one in imported() if one[1] in CODE_IN_DATA] == []
    numpy_loads = [(file, words(call)) for file, name, call in calls() if name.endswith("np.load")]
    assert all(given.get("allow_pickle", "False") == "False" for _, given in numpy_loads)


def test_torch_reads_tensors_and_nothing_else() -> None:
    """A service of FLUX.2's makers answers in torch's own format: only tensors are taken out of it."""
    loads = [(file, words(call).get("weights_only")) for file, name, call in calls() if name == "torch.load"]
    assert loads == [("editors/flux2.py", "True")]


def test_weights_are_safetensors_and_bring_no_code() -> None:
    fetched = [
        (file, name, words(call))
        for file, name, call in calls()
        if name.endswith((".from_pretrained", "pipeline.download", ".hf_hub_download", ".snapshot_download"))
    ]
    pipelines = [given for file, name, given in fetched if file == "editors/diffusers_base.py"]
    assert len(pipelines) >= 2 and all(given.get("use_safetensors") == "True" for given in pipelines)
    assert not [one for one in fetched if "trust_remote_code" in one[2]]
    assert not [file for file in TREES if "trust_remote_code" in (SOURCE / file).read_text(encoding="utf-8")]


def test_yaml_is_read_by_the_strict_reader_alone() -> None:
    used = {(file, name) for file, name, _ in calls() if name.startswith("yaml.")}
    assert {name for file, name in used if file != "core/yaml.py"} == {"yaml.safe_dump"}
    assert not {name for _, name in used if name.endswith(("load", "load_all"))}


def test_no_text_is_run() -> None:
    assert [(file, name) for file, name, _ in calls() if name in RUNS_TEXT] == []
    assert [
        (file, name) for file, name, _ in calls() if name in ("os.system", "os.popen", "subprocess.getoutput")
    ] == []
    assert [file for file, _, call in calls() if words(call).get("shell") == "True"] == []


def test_zips_are_never_unpacked_whole() -> None:
    """One member at a time, by a name that was checked: nothing in a zip says where it is written."""
    whole = [(file, name) for file, name, _ in calls() if name.endswith((".extractall", "unpack_archive"))]
    assert whole == []


def test_one_client_asks_the_network() -> None:
    clients = {file for file, name in imported() if name in ("aiohttp", "requests", "httpx", "urllib3", "http")}
    assert clients <= {"engine/http.py", "study/rehearsal/fake/deliver.py", "study/rehearsal/browsing.py"}
    assert [file for file, name, _ in calls() if name.endswith("urlopen")] in ([], ["study/rehearsal/browsing.py"])
