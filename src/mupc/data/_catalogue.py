"""The named data sets: sizes, normalisation, files, checksums and official sources, each written once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ._dataset import DataError, Dataset, Normalisation, Split
from ._formats import FileContents, parse_cifar, parse_idx


@dataclass(frozen=True)
class PublishedFile:
    """A published file: its name without `.gz`, its uncompressed size and its checksum."""

    name: str
    size: int
    sha256: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the file may have, the preferred one first. IDX files have a second spelling, with a dot."""
        if "-idx" not in self.name:
            return (self.name,)
        dotted = self.name.replace("-idx", ".idx")
        return (f"{self.name}.gz", self.name, f"{dotted}.gz", dotted)


@dataclass(frozen=True)
class Download:
    """A file of an official source, its checksum as downloaded, and the published files that it contains."""

    url: str
    sha256: str
    files: tuple[PublishedFile, ...]

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class NamedDataset:
    """A data set that `mupc.data.load` knows by name. One without downloads comes with a library."""

    name: str
    image_shape: tuple[int, ...]
    train: int
    test: int
    classes: int
    normalisation: Normalisation
    class_names: tuple[str, ...] = tuple("0123456789")
    folder: str = ""
    downloads: tuple[Download, ...] = ()
    parse: Callable[[Sequence[FileContents], tuple[int, ...], int], tuple[Split, Split]] = parse_idx

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        return tuple(file for download in self.downloads for file in download.files)

    @property
    def file_names(self) -> str:
        """The preferred names of all files, for a message."""
        return ", ".join(file.names[0] for file in self.files)

    def with_splits(self, train: Split, test: Split, *, official: bool, source: str) -> Dataset:
        """Return the data set once its splits have been read."""
        return Dataset(
            self.name, train, test, None, self.classes, self.image_shape, self.normalisation, official, source
        )


def _idx_downloads(base: str, packed: Sequence[str], unpacked: Sequence[str]) -> tuple[Download, ...]:
    """Return the downloads of training images, training labels, test images and test labels, with their checksums."""
    downloads = []
    for index, (archive, contents) in enumerate(zip(packed, unpacked, strict=True)):
        part, count = ("train", 60_000) if index < 2 else ("t10k", 10_000)
        kind, size = ("labels-idx1", 8 + count) if index % 2 else ("images-idx3", 16 + count * 28 * 28)
        file = PublishedFile(f"{part}-{kind}-ubyte", size, contents)
        downloads.append(Download(f"{base}{file.name}.gz", archive, (file,)))
    return tuple(downloads)


# Checksums of downloads: TensorFlow Datasets' url_checksums, which agree with the MD5s of the publishers.
# Checksums of contents: computed from files whose MD5 agrees with the published one.
_MNIST_DOWNLOADS = _idx_downloads(
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    packed=(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    unpacked=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_FASHION_DOWNLOADS = _idx_downloads(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    packed=(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    unpacked=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)

# The contents' checksums are those torchvision-ruby publishes for the archive with this checksum.
_CIFAR_BATCH = 10_000 * (1 + 3 * 32 * 32)
_CIFAR_DOWNLOAD = Download(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    tuple(
        PublishedFile(name, _CIFAR_BATCH, sha256)
        for name, sha256 in {
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        }.items()
    ),
)

_PIXELS = 1 / 255  # from uint8 pixels to [0, 1]
CENTRED = Normalisation(scale=_PIXELS, mean=0.5, std=0.5)  # from uint8 pixels to [-1, 1]

_CLOTHES = "T-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
_OBJECTS = "airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck"

NAMED_DATASETS: dict[str, NamedDataset] = {
    entry.name: entry
    for entry in (
        # Pixels are 0 to 16; mean and std are those of the training split, like MNIST's.
        NamedDataset(
            "digits",
            (8, 8),
            train=1_442,
            test=355,
            classes=10,
            normalisation=Normalisation(scale=1 / 16, mean=0.3051, std=0.3762),
        ),
        NamedDataset(
            "mnist",
            (28, 28),
            train=60_000,
            test=10_000,
            classes=10,
            normalisation=Normalisation(scale=_PIXELS, mean=0.1307, std=0.3081),
            folder="mnist",
            downloads=_MNIST_DOWNLOADS,
        ),
        NamedDataset(
            "fashion-mnist",
            (28, 28),
            train=60_000,
            test=10_000,
            classes=10,
            normalisation=CENTRED,
            class_names=tuple(_CLOTHES.split(", ")),
            folder="fashion-mnist",
            downloads=_FASHION_DOWNLOADS,
        ),
        NamedDataset(
            "cifar10",
            (3, 32, 32),
            train=50_000,
            test=10_000,
            classes=10,
            normalisation=CENTRED,
            class_names=tuple(_OBJECTS.split(", ")),
            folder="cifar-10-batches-bin",
            downloads=(_CIFAR_DOWNLOAD,),
            parse=parse_cifar,
        ),
    )
}


def find_named(name: str) -> NamedDataset:
    """Return the data set called `name`; the error suggests the nearest name."""
    if name in NAMED_DATASETS:
        return NAMED_DATASETS[name]
    near = difflib.get_close_matches(name.lower(), NAMED_DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    names = ", ".join(NAMED_DATASETS)
    raise DataError(f"unknown data set {name!r}", f"{hint}choose one of {names}, or give a path ending in .npz")
