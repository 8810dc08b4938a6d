from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from data_helpers import raises_line
from PIL import Image

from mupc import cli, data
from mupc.io.checks import ArgumentError

CLASSES = ("cat", "dog")


def picture(label: int, number: int, shape: tuple[int, ...] = (6, 4, 3)) -> np.ndarray:
    return np.random.default_rng([label, number]).integers(0, 256, shape, np.uint8)


def fill(folder: Path, count: int = 10, **options: tuple[int, ...]) -> str:
    """Write a folder of PNG images for each class, and return its name."""
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(picture(label, number, **options)).save(folder / name / f"{number:02}.png")
    return str(folder)


def rows(label: int, numbers: range) -> set[bytes]:
    return {picture(label, number).transpose(2, 0, 1).tobytes() for number in numbers}


def test_a_folder_for_each_class_is_split_with_equal_shares(tmp_path):
    pets = data.load(fill(tmp_path / "pets"), test=0.3, validation=2, seed=1)
    assert (pets.name, pets.schema.labels, pets.image_shape, pets.official) == ("pets", CLASSES, (3, 6, 4), False)
    parts = (pets.train, pets.validation, pets.test)
    assert [np.bincount(part.targets).tolist() for part in parts] == [[6, 6], [1, 1], [3, 3]]
    for label in (0, 1):
        held = [row.tobytes() for part in parts for row in part.raw[part.targets == label]]
        assert set(held) == rows(label, range(10)) and len(held) == 10
    assert pets.x_train.min() >= -1 and pets.x_train.max() <= 1 and pets.x_train.std() > 0.4


def test_parts_for_training_and_test_are_kept(tmp_path):
    name = str(tmp_path)
    fill(tmp_path / "train", 5)
    fill(tmp_path / "test", 2)
    (tmp_path / ".cache").mkdir()
    pets = data.load(name)
    assert (len(pets.train), len(pets.test), pets.validation) == (10, 4, None)
    assert {row.tobytes() for row in pets.test.raw[pets.test.targets == 1]} == rows(1, range(2))
    with pytest.raises(ArgumentError, match="test has no effect on .*Leave it out"):
        data.load(name, test=0.1)
    assert [check.message for check in data.check(name)] == [
        "read 10 images and 4 images (4 × 6) of 2 classes: 'cat', 'dog'"
    ]


def test_grey_images_have_no_channels_and_one_in_colour_gives_all_three(tmp_path):
    name = fill(tmp_path, shape=(6, 4))
    grey = data.load(name)
    assert grey.image_shape == (6, 4) and grey.sample_shape == (1, 6, 4)
    Image.fromarray(picture(0, 0)).save(tmp_path / "cat" / "00.png")
    mixed = data.load(name, seed=3)
    assert mixed.image_shape == (3, 6, 4)
    planes = mixed.train.raw[mixed.train.targets == 1].reshape(-1, 3, 24)
    assert (planes == planes[:, :1]).all()


@pytest.mark.parametrize(("size", "shape"), [(5, (3, 5, 5)), ([5], (3, 5, 5)), ((8, 3), (3, 8, 3))])
def test_images_are_brought_to_one_size_only_when_asked(tmp_path, size, shape):
    name = fill(tmp_path)
    odd = tmp_path / "dog" / "04.png"
    Image.fromarray(picture(1, 4, (9, 7, 3))).save(odd)
    with raises_line(f"00.png has 4 × 6 pixels and {odd} 7 × 9", "set image_size to bring all to one size"):
        data.load(name)
    assert data.load(name, image_size=size).image_shape == shape


def test_folders_that_cannot_be_used_say_why(tmp_path):
    name = str(tmp_path)
    with raises_line(
        f"{name} has 0 subfolders with PNG or JPEG images", "give a folder with one for each class, and two or more"
    ):
        data.load(name)
    fill(tmp_path)
    for wrong, says in (((1, 2, 3), "has 3 numbers. Give height and width"), (0, "must be at least 1, got 0")):
        with pytest.raises(ArgumentError, match=says):
            data.load(name, image_size=wrong)
    for option in ({"target": "a"}, {"context": 3}, {"classes": 2}, {"one_hot": True}):
        with pytest.raises(ArgumentError, match="has no effect on"):
            data.load(name, **option)
    with pytest.raises(ArgumentError, match="is classification, got regression"):
        data.load(name, task="regression")
    with pytest.raises(ArgumentError, match="image_size has no effect on 'digits'"):
        data.load("digits", image_size=8)
    (tmp_path / "bird").mkdir()
    with raises_line(f"{tmp_path / 'bird'} holds no PNG or JPEG images", "convert them, or move the folder away"):
        data.load(name)
    (tmp_path / "bird" / "a.png").write_bytes(b"no image")
    with raises_line("a.png cannot be read (damaged, or neither PNG nor JPEG)", "save it again"):
        data.load(name)


def test_a_test_part_needs_the_classes_of_the_training_part(tmp_path):
    fill(tmp_path / "train")
    (tmp_path / "test" / "cow").mkdir(parents=True)
    plain = tmp_path / "test" / "a.png"
    Image.fromarray(picture(0, 0)).save(plain)
    with raises_line(f"{tmp_path / 'test'} has no subfolders of images", "make one for each class"):
        data.load(tmp_path)
    plain.rename(tmp_path / "test" / "cow" / "a.png")
    with raises_line("test has images in a subfolder 'cow'", "name subfolders after classes: 'cat', 'dog'"):
        data.load(tmp_path)


def test_the_command_trains_on_a_folder_and_scores_it(tmp_path, capsys, monkeypatch):
    name = fill(tmp_path / "pets")
    monkeypatch.chdir(tmp_path)
    flags = f"train --data {name} --image-size 4 --width 8 --hidden-layers 2 --batch-size 4 --out run"
    assert cli.main([*flags.split(), "--epochs", "1"]) == 0
    config = json.loads(Path("run/config.json").read_text())["config"]
    assert (config["test"], config["image_size"], config["task"]) == (0.2, [4], "classification")
    assert cli.main(["train", "--resume", "run", "--epochs", "2"]) == 0
    capsys.readouterr()
    assert cli.main(["predict", "run", name, "--resize", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 20


def test_images_that_would_be_missed_are_refused(tmp_path):
    fill(tmp_path / "formats")
    (tmp_path / "formats" / "cat" / "a.webp").touch()
    with raises_line("a.webp is neither PNG nor JPEG", "convert it, or take it out of the folder"):
        data.load(tmp_path / "formats")
    fill(tmp_path / "deep")
    more = tmp_path / "deep" / "cat" / "more"
    more.mkdir()
    (tmp_path / "deep" / "cat" / "00.png").rename(more / "00.png")
    with raises_line(f"{more} is a folder of images inside that of a class", "move its images up"):
        data.load(tmp_path / "deep")
    for part in ("train", "test", "val"):
        fill(tmp_path / "parts" / part)
    with raises_line("parts has folders train and test, and val as well", "move that away"):
        data.load(tmp_path / "parts")


def test_a_photo_is_turned_upright(tmp_path):
    name = fill(tmp_path, shape=(6, 4))
    upright = np.zeros((6, 4), np.uint8)
    upright[:3] = 255
    for path in (tmp_path / "dog").iterdir():
        path.unlink()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it turned back by a quarter
    lying = Image.fromarray(np.rot90(upright))
    for number in range(4):
        lying.save(tmp_path / "dog" / f"{number}.jpg", exif=exif, quality=95)
    pets = data.load(name)
    assert pets.image_shape == (6, 4)
    dogs = pets.train.raw[pets.train.targets == 1].reshape(-1, 6, 4)
    assert len(dogs) and (dogs[:, :2] > 200).all() and (dogs[:, 4:] < 50).all()


def test_dark_images_and_names_of_data_sets(tmp_path, monkeypatch):
    name = fill(tmp_path / "digits", shape=(6, 4))
    monkeypatch.chdir(tmp_path)
    with raises_line("digits is a data set and a folder of images", "write ./digits for the folder, or rename it"):
        data.load("digits")
    assert data.load("./digits").schema.labels == CLASSES
    for path in Path(name).glob("*/*.png"):
        Image.fromarray(np.asarray(Image.open(path)) // 5).save(path)
    with raises_line("brightest value is 5", "scale them, so that white is 255"):
        data.load("./digits")


def test_the_first_samples_show_every_class(tmp_path):
    pets = data.load(fill(tmp_path))
    assert pets.train.targets[:8].tolist() == [0, 1] * 4


def test_what_memory_does_not_have_room_for(tmp_path):
    with raises_line("GiB, and there are", "set image_size to less"):
        data.load(fill(tmp_path), image_size=2_000_000)
