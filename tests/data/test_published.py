"""Published data sets: small files in the layout of each, with known labels, counts and splits."""

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crossbias import load
from crossbias.data import create_source, make_waterbirds
from crossbias.data.published.bar import ACTIONS
from crossbias.data.published.covid import split_by_patient
from crossbias.data.published.imagenet import SYNSETS
from crossbias.data.published.waterbirds import WATER_KINDS, is_waterbird
from crossbias.errors import CrossbiasError
from crossbias.train.record import as_in_training
from crossbias.types import UNKNOWN

LAUGHS: object = []  # a list of two lists of two lists ...: as text it would fill the memory
for _ in range(60):
    LAUGHS = [LAUGHS, LAUGHS]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CROSSBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CROSSBIAS_DATA", raising=False)


def picture(path: Path, color=(10, 20, 30), size=(40, 30)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def groups(data):
    """How often each (target, bias) occurs."""
    return Counter(zip(data.targets.tolist(), data.biases.tolist(), strict=True))


def test_bar_original_reads_classes_from_names_and_knows_no_bias_in_training(tmp_path):
    for number, action in enumerate(ACTIONS):
        name = "pole vaulting" if action == "vaulting" else action
        picture(tmp_path / f"bar/train/{name}_{number}.png", color=(number, 0, 0))
        picture(tmp_path / f"bar/test/{name}_1.png")
    train = load("bar", "train", root=tmp_path)
    assert train.targets.tolist() == [0, 1, 2, 5, 3, 4]  # "pole vaulting" sorts before "racing"
    assert train.inputs[:, 0, 0, 0].tolist() == train.targets.tolist()
    assert train.inputs.shape == (6, 3, 224, 224)
    assert not train.has_bias_labels
    test = load("bar", "test", root=tmp_path)
    assert (test.biases == 1).all()
    assert not test.alignment()[:, 1].any()
    with pytest.raises(CrossbiasError, match="no split 'validation' with the options"):
        load("bar", "validation", root=tmp_path)


def test_bar_of_a_severity_has_aligned_and_conflicting_training_images(tmp_path):
    picture(tmp_path / "bar/train/align/0/a_0_0.png")
    picture(tmp_path / "bar/train/align/3/b_3_3.png")
    picture(tmp_path / "bar/train/conflict/1pct/4/c_4_4.png")
    picture(tmp_path / "bar/train/conflict/5pct/4/d_4_4.png")
    picture(tmp_path / "bar/valid/2/e_2_2.png")
    picture(tmp_path / "bar/test/2/f_2_3.png")
    assert groups(load("bar", "train", root=tmp_path, severity="1")) == {
        (0, 0): 1, (3, 0): 1, (4, 1): 1,
    }  # fmt: skip
    assert groups(load("bar", "validation", root=tmp_path, severity="1")) == {(2, 0): 1}
    assert groups(load("bar", "test", root=tmp_path, severity="5")) == {(2, 1): 1}


def test_the_severities_of_bar_and_bffhq_have_the_names_of_bias_ensemble_too(tmp_path):
    picture(tmp_path / "bar/train/align/0/a_0_0.png")
    picture(tmp_path / "bar/train/conflict/1pct/4/c_4_4.png")
    assert create_source("bar", severity="1pct") == create_source("bar", severity="1")
    assert groups(load("bar", "train", root=tmp_path, severity="1pct")) == {(0, 0): 1, (4, 1): 1}
    assert create_source("bffhq", severity="0.5pct") == create_source("bffhq", severity="0.5")
    assert create_source("bar", severity="5pct").options()["severity"] == "5"
    with pytest.raises(CrossbiasError, match="severity"):
        create_source("bar", severity="2pct")


def test_a_tenth_of_the_original_training_images_of_bar_can_be_held_out(tmp_path):
    """The biased validation set of PGD."""
    for number in range(40):
        picture(tmp_path / f"bar/train/{ACTIONS[number % 6]}_{number}.png", color=(number, 0, 0))
        picture(tmp_path / f"bar/test/{ACTIONS[number % 6]}_{number}.png", color=(99, 0, 0))
    source = create_source("bar", held_out=0.1)
    assert source.available_splits == ("train", "validation", "test")
    train, validation, test = (
        source.listed(split, root=tmp_path, seed=1) for split in source.available_splits
    )
    assert (len(train.files), len(validation.files), len(test.files)) == (36, 4, 40)
    everything = create_source("bar").listed("train", root=tmp_path, seed=1)
    assert {*train.files, *validation.files} == {*everything.files}
    assert list(train.files) == sorted(train.files)
    assert set(validation.attributes["setting"]) == {UNKNOWN}
    other = source.listed("validation", root=tmp_path, seed=2)
    assert other.files != validation.files
    assert source.published("train") == {}
    with pytest.raises(CrossbiasError, match="held_out of bar is for the original release"):
        create_source("bar", severity="1", held_out=0.1)


def test_bar_refuses_a_file_of_no_known_action(tmp_path):
    picture(tmp_path / "bar/train/juggling_3.png")
    with pytest.raises(CrossbiasError, match=r"juggling_3\.png is not named ACTION_NUMBER"):
        load("bar", "train", root=tmp_path)


def test_published_counts_of_bar():
    source = create_source("bar")
    assert source.published("train")["images"] == 1941
    assert source.published("test")["images"] == 654


def test_bffhq_test_is_the_conflicting_part(tmp_path):
    picture(tmp_path / "bffhq/0.5pct/align/0/1_0_0.png")
    picture(tmp_path / "bffhq/0.5pct/align/1/2_1_1.png")
    picture(tmp_path / "bffhq/0.5pct/conflict/1/3_1_0.png")
    for name in ("4_0_0", "5_0_1", "6_1_0"):
        picture(tmp_path / f"bffhq/test/{name}.png")
    train = load("bffhq", "train", root=tmp_path)
    assert groups(train) == {(0, 0): 1, (1, 1): 1, (1, 0): 1}
    assert groups(load("bffhq", "test", root=tmp_path)) == {(0, 1): 1, (1, 0): 1}
    assert len(load("bffhq", "test-all", root=tmp_path)) == 3
    picture(tmp_path / "bffhq/test/7_0_2.png")
    with pytest.raises(CrossbiasError, match=r"7_0_2\.png must end in _TARGET_BIAS"):
        load("bffhq", "test", root=tmp_path)


@pytest.fixture
def celeba(tmp_path):
    """Eleven faces in the validation part: groups of 4, 3, 3 and 1; two faces in training."""
    rows = [(0, 0)] * 4 + [(0, 1)] * 3 + [(1, 0)] * 3 + [(1, 1)]
    faces = [(f"{i:06d}.png", 1, *row) for i, row in enumerate(rows)]
    faces += [("000098.png", 0, 1, 0), ("000099.png", 2, 0, 1)]
    folder = tmp_path / "celeba"
    for number, (name, *_) in enumerate(faces):
        picture(folder / "img_align_celeba" / name, color=(number, 0, 0))
    signs = ("-1", " 1")
    lines = [f"{name} -1 {signs[blond]} {signs[male]}" for name, _, blond, male in faces]
    header = "Bald Blond_Hair Male"
    (folder / "list_attr_celeba.txt").write_text("\n".join([str(len(faces)), header, *lines]))
    parts = [f"{name} {part}" for name, part, *_ in faces]
    (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return tmp_path


def test_celeba_reads_the_official_lists(celeba):
    train = load("celeba", "train", root=celeba)
    assert groups(train) == {(1, 0): 1}
    assert int(train.inputs[0, 0, 0, 0]) == 11
    test = load("celeba", "test", root=celeba)
    assert groups(test) == {(0, 0): 4, (0, 1): 3, (1, 0): 3, (1, 1): 1}
    assert test.alignment().tolist() == [[False, True], [True, False]]
    assert groups(load("celeba", "test-official", root=celeba)) == {(0, 1): 1}


def test_celeba_conflicting_and_balanced_test_sets(celeba):
    conflicting = load("celeba", "test-conflicting", root=celeba)
    assert groups(conflicting) == {(0, 0): 4, (1, 1): 1}
    balanced = load("celeba", "test-balanced", root=celeba, seed=3)
    assert groups(balanced) == {(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 1}
    both = load("celeba", "test-balanced-conflicting", root=celeba, seed=3)
    assert groups(both) == {(0, 0): 1, (1, 1): 1}
    kept = balanced.inputs[balanced.targets == balanced.biases]
    assert torch.equal(kept, both.inputs)


def test_celeba_names_the_image_that_has_no_row(celeba):
    path = celeba / "celeba/list_attr_celeba.txt"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))
    with pytest.raises(
        CrossbiasError,
        match=r"no row for 1 images of list_eval_partition\.txt, such as 000099\.png",
    ):
        load("celeba", "test-official", root=celeba)


def test_waterbirds_released_and_exact_species(tmp_path):
    folder = tmp_path / "waterbirds"
    rows = [
        ("001.Black_footed_Albatross/a.jpg", 1, 0, 1),
        ("021.Eastern_Towhee/b.jpg", 1, 0, 0),  # a waterbird in the release only
        ("021.Eastern_Towhee/c.jpg", 1, 2, 1),
        ("143.Caspian_Tern/d.jpg", 1, 2, 0),
    ]
    for name, *_ in rows:
        picture(folder / name)
    with open(folder / "metadata.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("img_id", "img_filename", "y", "split", "place", "place_filename"))
        writer.writerows([(1, name, y, split, place, "x") for name, y, split, place in rows])
    assert groups(load("waterbirds", "train", root=tmp_path)) == {(1, 1): 1, (1, 0): 1}
    assert groups(load("waterbirds", "train", root=tmp_path, species="exact")) == {
        (1, 1): 1, (0, 0): 1,
    }  # fmt: skip
    assert groups(load("waterbirds", "test", root=tmp_path, species="exact")) == {
        (0, 1): 1, (1, 0): 1,
    }  # fmt: skip
    folder.rename(tmp_path / "waterbird_complete95_forest2water2")  # as the archive unpacks
    assert groups(load("waterbirds", "train", root=tmp_path)) == {(1, 1): 1, (1, 0): 1}


@pytest.mark.parametrize(
    ("species", "water"),
    [
        ("021.Eastern_Towhee", False),
        ("088.Western_Meadowlark", False),
        ("102.Western_Wood_Pewee", False),
        ("066.Western_Gull", True),
        ("053.Western_Grebe", True),
        ("141.Artic_Tern", True),
        ("087.Mallard", True),
        ("086.Pacific_Loon", True),
        ("004.Groove_billed_Ani", False),
    ],
)
def test_species_are_matched_by_their_last_word(species, water):
    assert is_waterbird(species) is water
    assert len(WATER_KINDS) == 17


@pytest.fixture
def birds(tmp_path):
    """Eighty birds of CUB with masks, and as many photographs of each background."""
    cub, places = tmp_path / "cub", tmp_path / "places"
    species = ("141.Artic_Tern", "021.Eastern_Towhee")
    names = [f"{kind}/{i:02d}.png" for kind in species for i in range(40)]
    for name in names:
        picture(cub / "images" / name, color=(255, 0, 0), size=(8, 8))
        mask = Image.new("L", (8, 8), 0)
        mask.paste(255, (0, 0, 4, 8))
        path = cub / "segmentations" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        mask.save(path)
    lines = [f"{i} {name}" for i, name in enumerate(names, 1)]
    (cub / "images.txt").write_text("\n".join(lines))
    parts = [f"{i} {int(i % 2 == 0)}" for i in range(1, len(names) + 1)]
    (cub / "train_test_split.txt").write_text("\n".join(parts))
    for category, color in [
        ("b/bamboo_forest", (0, 255, 0)), ("forest/broadleaf", (0, 255, 0)),
        ("ocean", (0, 0, 255)), ("lake/natural", (0, 0, 255)),
    ]:  # fmt: skip
        for i in range(40):
            picture(places / category / f"{i}.png", color=color, size=(20, 10))
    return cub, places


def test_made_waterbirds_have_exact_severity_masks_and_backgrounds(birds, tmp_path):
    cub, places = birds
    made = make_waterbirds(cub, places, tmp_path / "waterbirds", rho=0.75, seed=1)
    with open(made, newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["split"] for row in rows) == {"0": 32, "1": 8, "2": 40}
    test = load("waterbirds", "test", root=tmp_path)
    assert groups(test) == {(0, 0): 10, (0, 1): 10, (1, 0): 10, (1, 1): 10}
    train = load("waterbirds", "train", root=tmp_path)
    aligned = (train.targets == train.biases).sum()
    per_class = torch.bincount(train.targets)
    assert aligned == sum(int(n * 0.75 + 0.5) for n in per_class.tolist())
    assert train.inputs[:, :, 128, 32].tolist() == [[255, 0, 0]] * 32  # the bird, left
    background = train.inputs[:, :, 128, 220].tolist()
    assert background == [[[0, 255, 0], [0, 0, 255]][place] for place in train.biases.tolist()]
    with pytest.raises(CrossbiasError, match="exists already"):
        make_waterbirds(cub, places, tmp_path / "waterbirds")


def test_waterbirds_that_cannot_be_made_leave_nothing_behind(birds, tmp_path):
    cub, places = birds
    (cub / "segmentations/021.Eastern_Towhee/39.png").write_bytes(b"damaged")  # the last one
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CrossbiasError, match=r"cannot read .*39\.png"):
        make_waterbirds(cub, places, tmp_path / "new/waterbirds")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_photograph_too_large_to_open_is_refused(birds, tmp_path, monkeypatch):
    cub, places = birds
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30)  # twice as many are an error of Pillow
    with pytest.raises(CrossbiasError, match=r"has more than 64,000,000 pixels; make it smaller"):
        make_waterbirds(cub, places, tmp_path / "new/waterbirds")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("81 ../../outside.png", r"images\.txt: \.\./\.\./outside\.png leaves the folder"),
        ("81 141.Artic_Tern/99.png", r"images\.txt: 141\.Artic_Tern/99\.png is missing"),
        ("81", r"images\.txt line 81 is '81'; it must be a number and a value"),
    ],
)
def test_a_mistake_in_the_lists_of_cub_is_named_before_anything_is_made(
    line, message, birds, tmp_path
):
    cub, places = birds
    for name, text in (("images.txt", line), ("train_test_split.txt", "81 1")):
        (cub / name).write_text(f"{(cub / name).read_text()}\n{text}")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CrossbiasError, match=message):
        make_waterbirds(cub, places, tmp_path / "waterbirds")
    assert sorted(tmp_path.rglob("*")) == before


def test_nine_class_imagenet_has_42_synsets_and_2100_validation_images():
    names = [synset for synsets in SYNSETS.values() for synset in synsets]
    assert len(set(names)) == 42
    published = create_source("imagenet-9").published("test")
    assert published["images"] == 2100
    assert (published["crab"], published["frog"], published["dog"]) == (200, 150, 250)


def write_imagenet(folder: Path, *, size=(40, 30)) -> None:
    """An image in the first folder of each class; the folders of the other synsets are empty."""
    for target, synsets in enumerate(SYNSETS.values()):
        for synset in synsets:
            (folder / synset).mkdir(parents=True)
        picture(folder / synsets[0] / f"v{target}.JPEG", size=size)


FIRST = next(iter(SYNSETS.values()))[0]
RELEASED = "path,category,cluster1,cluster2,cluster3\n"


def test_imagenet_9_with_clusters_adversarial_and_corrupted_images(tmp_path):
    write_imagenet(tmp_path / "imagenet/val")
    write_imagenet(tmp_path / "imagenet-c/fog/3")
    for synsets in SYNSETS.values():  # not all synsets are in ImageNet-A
        picture(tmp_path / f"imagenet-a/{synsets[-1]}/a.JPEG")
    picture(tmp_path / "imagenet/val/n00000000/not-ours.JPEG")
    clusters = tmp_path / "clusters.csv"
    clusters.write_text(f"{RELEASED}{FIRST}/v0.JPEG,dog,8,0,3\n")
    test = load("imagenet-9", "test", root=tmp_path, clusters=str(clusters))
    assert test.targets.tolist() == list(range(9))
    assert test.attributes["texture-1"].tolist() == [8] + [UNKNOWN] * 8
    assert test.attributes["texture-3"].tolist() == [3] + [UNKNOWN] * 8
    for split, options in (
        ("test-a", {"imagenet_a": True}),
        ("test-c-fog-3", {"imagenet_c": True}),
    ):
        found = load("imagenet-9", split, root=tmp_path, **options)
        assert found.targets.tolist() == list(range(9))
    assert create_source("imagenet-9").test_splits == ("test",)
    assert len(create_source("imagenet-9", imagenet_c=True).test_splits) == 76


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{RELEASED}{FIRST}/v0.JPEG,dog,9,0,3\n", r"clusters\.csv line 2: cluster1 is '9'; it"),
        (f"{RELEASED}val/{FIRST}/v0.JPEG,dog,1,0,3\n",
         rf"clusters\.csv names no image of .*imagenet/val; .* as {FIRST}/v0\.JPEG"),
        (RELEASED.replace("path", "file") + "a,dog,1,2,3\n", r"clusters\.csv has no column 'path'"),
        (None, r"clusters\.csv does not exist; get clusters/9class_imagenet_val\.csv"),
    ],
)  # fmt: skip
def test_imagenet_9_refuses_clusters_of_other_images(content, message, tmp_path):
    write_imagenet(tmp_path / "imagenet/val")
    clusters = tmp_path / "clusters.csv"
    if content:
        clusters.write_text(content)
    with pytest.raises(CrossbiasError, match=message):
        load("imagenet-9", "test", root=tmp_path, clusters=str(clusters))


def test_imagenet_9_names_the_folder_that_is_wrong(tmp_path):
    picture(tmp_path / "imagenet/val/ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(CrossbiasError, match=r"imagenet/val holds images that are not sorted into"):
        load("imagenet-9", "test", root=tmp_path)
    write_imagenet(tmp_path / "imagenet/train")
    absent = tmp_path / "imagenet/train/n02219486"
    absent.rmdir()
    with pytest.raises(CrossbiasError, match=r"needs .*imagenet/train/n02219486, which does not"):
        load("imagenet-9", "train", root=tmp_path)
    picture(tmp_path / "imagenet-a/n00000000/a.jpg")
    with pytest.raises(CrossbiasError, match=r"imagenet-a has no images of split 'test-a'"):
        load("imagenet-9", "test-a", root=tmp_path, imagenet_a=True)


def test_corrupted_images_are_224_pixels_wide_and_only_cut(tmp_path):
    write_imagenet(tmp_path / "imagenet-c/fog/3", size=(224, 224))
    file = tmp_path / "imagenet-c/fog/3" / FIRST / "v0.JPEG"
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, format="PNG")  # lossless, whatever the name says
    source = create_source("imagenet-9", imagenet_c=True)
    corrupted = source.load("test-c-fog-3", root=tmp_path)
    seen = corrupted.pictures(torch.tensor([0]))[0]
    assert torch.equal(seen, torch.from_numpy(pixels).permute(2, 0, 1))
    write_imagenet(tmp_path / "imagenet/train")
    train = source.load("train", root=tmp_path)
    assert train.inputs.shape[1:] == (3, 256, 256)
    trained = {
        "shape": [3, 256, 256],
        "classes": list(train.classes),
        "values": {name: list(values) for name, values in train.values.items()},
        "pixels": {"crop": 224, "mean": list(train.mean), "std": list(train.std)},
    }
    assert as_in_training(corrupted, trained) is corrupted
    smaller = replace(corrupted, inputs=corrupted.inputs[:, :, :200, :200], digest="")
    with pytest.raises(CrossbiasError, match="has inputs of 3 x 200 x 200, but the model was"):
        as_in_training(smaller, trained)


def test_kinetics_10_reads_folders_of_frames(tmp_path):
    source = create_source("kinetics-10")
    for number, action in enumerate(source.classes):
        folder = action.replace(" ", "_") if number % 2 else action
        for frame in range(60):
            picture(tmp_path / f"kinetics-10/train/{folder}/clip/{frame:03d}.png", (frame, 0, 0))
        for stray in ("Thumbs.db", "notes.txt", ".DS_Store", "clip.part", "._clip.mp4"):
            (tmp_path / f"kinetics-10/train/{folder}" / stray).write_bytes(b"stray")
        for stray in ("Thumbs.db", *(f"._{frame:03d}.png" for frame in range(60))):  # of macOS
            (tmp_path / f"kinetics-10/train/{folder}/clip" / stray).write_bytes(b"stray")
    (tmp_path / "kinetics-10/train/annotations.csv").write_text("label,youtube_id\n")
    data = load("kinetics-10", "train", root=tmp_path)
    assert data.targets.tolist() == list(range(10))
    assert data.inputs.shape == (10, 3, 8, 256, 256)
    # Eight frames, eight apart, in the middle of sixty.
    assert data.inputs[4, 0, :, 0, 0].tolist() == [1, 9, 17, 25, 33, 41, 49, 57]


def test_kinetics_10_refuses_a_clip_without_frames_and_one_that_is_no_video(tmp_path):
    for action in create_source("kinetics-10").classes:
        (tmp_path / "kinetics-10/train" / action / "clip").mkdir(parents=True)
    with pytest.raises(CrossbiasError, match="is a folder without image files"):
        load("kinetics-10", "train", root=tmp_path)
    first = tmp_path / "kinetics-10/train" / create_source("kinetics-10").classes[0]
    (first / "a.mp4").symlink_to("absent.mp4")
    with pytest.raises(CrossbiasError, match=r"cannot read the clip .*a\.mp4: No such file"):
        load("kinetics-10", "train", root=tmp_path)


def test_a_split_without_images_is_named_with_its_own_folder(tmp_path):
    for action in create_source("kinetics-10").classes:
        (tmp_path / "mimetics-10" / action).mkdir(parents=True)
    with pytest.raises(CrossbiasError, match="mimetics-10 has no images of split 'test'"):
        load("kinetics-10", "test", root=tmp_path)
    released = tmp_path / "waterbird_complete95_forest2water2"
    picture(released / "087.Mallard/a.jpg")
    (released / "metadata.csv").write_text("img_filename,y,split,place\n087.Mallard/a.jpg,1,0,1\n")
    with pytest.raises(CrossbiasError, match="forest2water2 has no images of split 'test'"):
        load("waterbirds", "test", root=tmp_path)


def test_cartoon_ratio_is_exact_in_every_class(tmp_path):
    number = 0
    for hair in range(10):
        for face in range(11):
            for _ in range(40 if hair // 2 == face // 2 else 4):
                path = picture(tmp_path / f"cartoonset10k/{number}.png", size=(4, 4))
                path.with_suffix(".csv").write_text(
                    f'"eye_angle", 1, 3\n"face_color", {face}, 11\n"hair_color", {hair}, 10\n'
                )
                number += 1
    parts = [load("cartoon", split, root=tmp_path, ratio=0.05) for split in ("train", "validation")]
    counts = Counter()
    for part in parts:
        counts += groups(part)
    for color in range(4):
        aligned = counts[color, color]
        conflicting = sum(counts[color, other] for other in range(4) if other != color)
        assert conflicting == round(aligned * 0.05 / 0.95)
    test = load("cartoon", "test", root=tmp_path)
    split = [load("cartoon", f"test-{name}", root=tmp_path) for name in ("majority", "minority")]
    assert len(test) == len(split[0]) + len(split[1])
    assert (split[0].targets == split[0].biases).all()
    assert (split[1].targets != split[1].biases).all()
    with pytest.raises(CrossbiasError, match=r"ratio 0\.9 needs .* choose a smaller ratio"):
        load("cartoon", "train", root=tmp_path, ratio=0.9)


def test_dogs_and_cats_from_the_lists(tmp_path):
    folder = tmp_path / "dogs-cats"
    bright, dark = ["cat.0.jpg", "dog.1.jpg", "dog.2.jpg"], ["cat.3.jpg", "dog.4.jpg"]
    for name in bright + dark:
        picture(folder / "train" / name)
    (folder / "list_bright.txt").write_text("\n".join(bright))
    (folder / "list_dark.txt").write_text("\n".join(f"train/{name}" for name in dark))
    assert groups(load("dogs-cats", "train", root=tmp_path)) == {(0, 0): 1, (1, 1): 2}
    other = {(0, 1): 1, (1, 0): 1}
    assert groups(load("dogs-cats", "test-other", root=tmp_path)) == other
    assert groups(load("dogs-cats", "train", root=tmp_path, training="TB2")) == other
    assert create_source("dogs-cats").published("train")["images"] == 10_047
    assert create_source("dogs-cats", training="TB2").published("train")["images"] == 6_738


def write_oracle(folder: Path, labels: object) -> None:
    """What LNL's oracle said about the test images, saved as LNL did."""
    folder.mkdir(exist_ok=True)
    np.save(folder / "test_result.npy", np.array(labels, dtype=object))


@pytest.mark.parametrize("name", ["test", "test1"])
def test_dogs_and_cats_are_tested_on_the_labels_of_the_oracle(name, tmp_path):
    folder = tmp_path / "dogs-cats"
    labels = {f"./dataset/test1/{n}.jpg": np.int64(n % 2) for n in (10, 2, 1)}
    write_oracle(folder, labels)
    for number in (1, 2, 3, 10):  # nobody labeled 3
        picture(folder / name / f"{number}.jpg", color=(number, number, number))
    test = load("dogs-cats", "test", root=tmp_path)
    assert test.targets.tolist() == [1, 0, 0]
    assert test.inputs[:, 0, 0, 0].tolist() == [1, 2, 10]  # by number, not by name
    assert not test.has_bias_labels
    (folder / name / "2.jpg").unlink()
    with pytest.raises(CrossbiasError, match=rf"{name}/2\.jpg"):
        load("dogs-cats", "test", root=tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        ("a.jpg", 1),
        ("1.jpg", 2),
        ("1.jpg", "dog"),
        (b"1.jpg", 1),
        ("1.jpg\n", 0),
        ("1.jpg", LAUGHS),
    ],
)
def test_dogs_and_cats_refuse_another_dictionary_in_one_line(entry, tmp_path):
    picture(tmp_path / "dogs-cats/test1/1.jpg")
    write_oracle(tmp_path / "dogs-cats", dict([entry]))
    with pytest.raises(
        CrossbiasError, match=r"test_result\.npy has the entry .*; it must"
    ) as found:
        load("dogs-cats", "test", root=tmp_path)
    assert "\n" not in str(found.value)


def test_imdb_face_sets_by_age_and_gender(tmp_path):
    folder = tmp_path / "imdb-face"
    people = {
        "01/a.jpg": (20, 0), "01/b.jpg": (50, 1), "02/c.jpg": (25, 1), "02/d.jpg": (44, 0),
        "02/e.jpg": (35, 1), "03/f.jpg": (29, 0), "03/g.jpg": (39, 1),
    }  # fmt: skip
    for name in people:
        picture(folder / "imdb_crop" / name)
    labels = {name.encode(): {"age": age, "gender": sex} for name, (age, sex) in people.items()}
    np.save(folder / "imdb_age_gender.npy", np.array(labels, dtype=object))
    lists = {"train_list": list(people)[:5], "test_list": list(people)[5:]}
    np.save(folder / "imdb_split.npy", np.array(lists, dtype=object))
    assert groups(load("imdb-face", "train", root=tmp_path)) == {(0, 0): 1, (1, 1): 1}
    other = load("imdb-face", "test-other", root=tmp_path)
    assert groups(other) == {(1, 0): 1, (0, 1): 1}
    assert groups(load("imdb-face", "test", root=tmp_path)) == {(0, 0): 1}
    by_age = load("imdb-face", "train", root=tmp_path, target="age", training="EB2")
    assert by_age.classes == ("0-29", "40+")
    assert groups(by_age) == {(0, 1): 1, (1, 0): 1}


@pytest.mark.parametrize(
    ("labels", "parts", "message"),
    [
        ({}, {"train": []}, r"imdb_split\.npy is another dictionary: .* needs a list 'train_list'"),
        ({}, {"train_list": "a.jpg", "test_list": []}, "needs a list 'train_list'"),
        ({}, {"train_list": [3], "test_list": []}, "needs names as text, not 3"),
        ({}, {"train_list": [LAUGHS], "test_list": []}, "needs names as text, not"),
        ({}, {"train_list": ["\x1b[2J"], "test_list": []}, "needs names as text, not"),
        ({}, None, r"imdb_age_gender\.npy is another dictionary: .* needs the age of a\.jpg"),
        ({3: 4}, None, r"imdb_age_gender\.npy is another dictionary: .* names as text, not 3"),
        ({"a.jpg": 34}, None, r"needs the age of a\.jpg and its gender, which is 0 or 1"),
        ({"a.jpg": {"age": 34}}, None, "needs the age of"),
        ({"a.jpg": {"age": LAUGHS, "gender": 1}}, None, "needs the age of"),
        ({"a.jpg": {"age": "old", "gender": 1}}, None, "needs the age of"),
        ({"a.jpg": {"age": 34, "gender": float("nan")}}, None, "needs the age of"),
        ({"a.jpg": {"age": 34, "gender": 2}}, None, "needs the age of"),
        ({"a.jpg": {"age": [], "gender": 1}}, None, "needs the age of"),
    ],
)
def test_imdb_face_refuses_other_dictionaries_in_one_line(labels, parts, message, tmp_path):
    picture(tmp_path / "imdb-face/imdb_crop/a.jpg")
    parts = parts or {"train_list": ["a.jpg"], "test_list": []}
    for name, content in (("imdb_age_gender", labels), ("imdb_split", parts)):
        np.save(tmp_path / f"imdb-face/{name}.npy", np.array(content, dtype=object))
    with pytest.raises(CrossbiasError, match=message) as refused:
        load("imdb-face", "train", root=tmp_path)
    assert "\n" not in str(refused.value)


def test_covid_targets_and_sources_of_x_rays_alone(tmp_path):
    folder = tmp_path / "covid-cxr"
    rows = []
    for patient in range(40):
        finding = "Pneumonia/Viral/COVID-19" if patient % 2 else "No Finding"
        host = "radiopaedia.org" if patient < 20 else "www.nejm.org"
        for image in range(2):
            name = f"{patient}-{image}.png"
            picture(folder / "images" / name, color=(5 * patient,) * 3)
            rows.append((patient, finding, "X-ray", "images", name, f"https://{host}/{patient}"))
    rows.append((98, "todo", "X-ray", "images", "absent.png", ""))
    rows.append((99, "Pneumonia/Viral/COVID-19", "CT", "images", "slice.png", ""))
    rows.append((99, "Pneumonia/Viral/COVID-19", "CT", "volumes", "volume.nii.gz", ""))
    with open(folder / "metadata.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("patientid", "finding", "modality", "folder", "filename", "url"))
        writer.writerows(rows)
    picture(folder / "images/slice.png", color=(255,) * 3)
    splits = {
        name: load("covid-cxr", name, root=tmp_path) for name in ("train", "validation", "test")
    }
    assert sum(len(data) for data in splits.values()) == 80
    assert splits["test"].inputs.shape == (24, 1, 256, 256)
    assert set(groups(splits["test"]).values()) == {6}  # three of ten patients, two images each
    grey = [set(data.inputs[:, 0, 0, 0].tolist()) for data in splits.values()]
    assert len(set.union(*grey)) == sum(len(found) for found in grey) == 40
    shade = splits["test"].inputs[:, 0, 0, 0]  # the same in both images of a patient
    cluster = splits["test"].cluster
    assert torch.equal(cluster[:, None] == cluster, shade[:, None] == shade)
    assert len(set(cluster.tolist())) == 12


def test_all_images_of_a_patient_are_in_one_split():
    patients = [str(i // 3) for i in range(300)]
    found = split_by_patient(patients, [(i % 2, 0) for i in range(300)], seed=0)
    assert all(len(set(found[i : i + 3])) == 1 for i in range(0, 300, 3))
    assert set(found) == {"train", "validation", "test"}


def test_corda_layout_and_published_counts(tmp_path):
    for hospital, finding, count in (("CDSS", "positive", 20), ("CDSS", "negative", 10),
                                     ("SLG", "positive", 10), ("SLG", "negative", 20)):  # fmt: skip
        for i in range(count):
            picture(tmp_path / f"covid-cxr/corda/{hospital}/{finding}/{i}.png", size=(8, 8))
    test = load("covid-cxr", "test", root=tmp_path, collection="corda")
    assert groups(test) == {(1, 0): 6, (0, 0): 3, (1, 1): 3, (0, 1): 6}
    assert test.cluster is None
    published = [create_source("covid-cxr", collection="corda").published(split)
                 for split in ("train", "validation", "test")]  # fmt: skip
    assert sum(counts["images"] for counts in published) == 898
    assert published[2]["positive / CDSS"] == 89  # 30% of 297


PUBLISHED = ["bar", "bffhq", "cartoon", "celeba", "covid-cxr", "dogs-cats", "imagenet-9",
             "imdb-face", "kinetics-10", "waterbirds"]  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_page_says_source_license_size_layout_and_how_to_get_it(name):
    page = (Path(__file__).parents[2] / f"docs/data/{name}.md").read_text()
    for word in ("source", "license", "size"):
        assert f"| {word} |" in page, word
    assert "https://" in page
    assert f"crossbias data check {name} --root data\n" in page
    assert f"\n    {create_source(name).folder}/" in page  # the layout


@pytest.mark.parametrize("name", PUBLISHED)
def test_absent_files_are_said_to_be_so_with_the_remedy(name, tmp_path):
    with pytest.raises(CrossbiasError, match=rf"{name} needs .*get the data from .*{name}\.md"):
        load(name, "train", root=tmp_path)
    with pytest.raises(CrossbiasError, match=f"the files of {name} are needed: pass root="):
        load(name, "train")
