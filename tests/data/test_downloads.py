"""Downloads from a real server on this machine: whole and right, or not kept."""

import gzip
import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from certcal import CertcalError
from certcal.data import data_folders, download_dataset, load_dataset
from certcal.data.catalog import DATASETS, Download, NamedDataset
from certcal.data.downloads import fetch
from formats import cifar_binary, idx_bytes, random_images


class Server:
    """Files served over HTTP; some of them badly."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.short: set[str] = set()  # promised in full, ended early
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.lstrip("/")
                outer.asked.append(name)
                content = outer.files.get(name)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write((content or b"")[: -3 if name in outer.short else None])

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}/"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    for variable in ("http_proxy", "HTTP_PROXY", "CERTCAL_DATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    running = Server()
    thread = threading.Thread(target=running.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.http.shutdown()
    running.http.server_close()
    thread.join()


def failure(item: Download, folder: Path) -> str:
    with pytest.raises(CertcalError) as caught:
        fetch(item, folder)
    assert "\n" not in str(caught.value)
    assert f"into {folder}" in str(caught.value)
    assert list(folder.iterdir()) == []  # neither the file nor a part of it
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_right_file_arrives_under_its_name(server: Server, tmp_path: Path, algorithm: str) -> None:
    server.files["data.bin"] = content = bytes(range(256)) * 5000
    digest = hashlib.new(algorithm, content).hexdigest()
    fetch(Download("data.bin", (f"{server.address}data.bin",), digest), tmp_path / "new" / "folder")
    assert (tmp_path / "new/folder/data.bin").read_bytes() == content
    assert len(list((tmp_path / "new/folder").iterdir())) == 1


def test_a_checksum_of_the_contents_survives_new_compression(server: Server, tmp_path: Path) -> None:
    content = b"the same contents " * 100
    digest = hashlib.sha256(content).hexdigest()
    for level in (1, 9):
        server.files["data.gz"] = gzip.compress(content, level, mtime=level)
        fetch(Download("data.gz", (f"{server.address}data.gz",), digest, unpacked=True), tmp_path / str(level))
        assert gzip.decompress((tmp_path / str(level) / "data.gz").read_bytes()) == content


def test_wrong_truncated_missing_and_unreachable(server: Server, tmp_path: Path) -> None:
    digest = hashlib.md5(b"right contents").hexdigest()
    server.files |= {"wrong": b"wrong contents", "short": b"right contents", "plain.gz": b"no gzip"}
    server.short.add("short")

    def item(name: str, **options: bool) -> Download:
        return Download(name, (server.address + name,), digest, **options)

    folder = tmp_path / "folder"
    assert f"instead of {digest}" in failure(item("wrong"), folder)
    assert "11 of 14 bytes" in failure(item("short"), folder)
    assert "HTTP status 404" in failure(item("absent"), folder)
    assert "gzip" in failure(item("plain.gz", unpacked=True), folder)
    assert "refused" in failure(Download("x", ("http://127.0.0.1:1/x",), digest), folder)


def test_the_next_address_is_tried(server: Server, tmp_path: Path) -> None:
    server.files |= {"a/file": b"damaged", "b/file": b"good"}
    addresses = tuple(f"{server.address}{mirror}/file" for mirror in ("a", "absent", "b"))
    fetch(Download("file", addresses, hashlib.md5(b"good").hexdigest()), tmp_path)
    assert (tmp_path / "file").read_bytes() == b"good"
    assert server.asked == ["a/file", "absent/file", "b/file"]


def test_an_unwritable_folder_is_one_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CertcalError, match="Could not download x from"):
        fetch(Download("x", (f"{server.address}x",), "0" * 32), tmp_path / "file")


def archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def test_archives_give_their_members_and_nothing_else(server: Server, tmp_path: Path) -> None:
    server.files["all.tar.gz"] = content = archive({"x/a.bin": b"a", "../../b.bin": b"b", "../other": b"c"})
    item = Download("all.tar.gz", (f"{server.address}all.tar.gz",), hashlib.md5(content).hexdigest())
    fetch(replace(item, members=("a.bin", "b.bin")), tmp_path / "deep/folder")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.bin", "b.bin"]
    with pytest.raises(CertcalError, match=r"lacks d\.bin"):
        fetch(replace(item, members=("d.bin",)), tmp_path / "other")


def served(server: Server, dataset: NamedDataset, files: dict[str, bytes]) -> NamedDataset:
    """The data set with its files served, and expected, as given."""
    server.files |= files

    def local(item: Download) -> Download:
        content = gzip.decompress(files[item.file]) if item.unpacked else files[item.file]
        algorithm = "sha256" if item.unpacked else "md5"
        digest = hashlib.new(algorithm, content).hexdigest()
        return replace(item, urls=(server.address + item.file,), digest=digest)

    downloads = {split: tuple(map(local, items)) for split, items in dataset.downloads.items()}
    return replace(dataset, downloads=downloads, installed=())


def test_load_dataset_downloads_what_the_split_needs_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = random_images(3, 1, 28)[:, 0]
    labels = images[:, 0, 0] % 10
    files = {}
    for prefix in ("train", "t10k"):
        files[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(idx_bytes(images))
        files[f"{prefix}-labels-idx1-ubyte.gz"] = gzip.compress(idx_bytes(labels))
    monkeypatch.setitem(DATASETS, "fashion-mnist", served(server, DATASETS["fashion-mnist"], files))
    for _ in range(2):
        data = load_dataset("fashion-mnist", download=True)
        assert data.labels.tolist() == labels.tolist()
    assert data.source == str(tmp_path / "cache/certcal/data/fashion-mnist")
    assert server.asked == ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    assert download_dataset("FashionMNIST") == data_folders()[0] / "fashion-mnist"
    assert len(server.asked) == 4
    assert len(load_dataset("fashion-mnist", split="train")) == 3


def test_cifar_is_downloaded_as_one_archive(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = random_images(2, 3, 32)
    batch = cifar_binary(images, images[:, 0, 0, 0] % 10)
    names = [*(f"data_batch_{part}.bin" for part in range(1, 6)), "test_batch.bin"]
    files = {"cifar-10-binary.tar.gz": archive({f"cifar-10-batches-bin/{name}": batch for name in names})}
    monkeypatch.setitem(DATASETS, "cifar10", served(server, DATASETS["cifar10"], files))
    assert len(load_dataset("cifar10", root=tmp_path, download=True)) == 2
    assert len(load_dataset("cifar10", root=tmp_path, split="train", download=True)) == 10
    assert server.asked == ["cifar-10-binary.tar.gz"]
    assert sorted(path.name for path in (tmp_path / "cifar-10-batches-bin").iterdir()) == sorted(names)


def test_debian_s_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    from formats import write_mnist

    fashion = DATASETS["fashion-mnist"]
    assert fashion.installed == (Path("/usr/share/datasets/fashion-mnist"),)
    write_mnist(tmp_path / "installed", random_images(3, 1, 28), random_images(3, 1, 28)[:, 0, 0, 0] % 10)
    moved = replace(fashion, installed=(tmp_path / "installed",))
    monkeypatch.setitem(DATASETS, "fashion-mnist", moved)
    assert len(load_dataset("fashion-mnist", download=True)) == 3
    assert server.asked == []


def test_every_published_file_has_an_address_and_a_checksum() -> None:
    for dataset in DATASETS.values():
        items = {item for items in dataset.downloads.values() for item in items}
        assert len({item.digest for item in items}) == len(items)
        for item in items:
            assert re.fullmatch("[0-9a-f]{32}|[0-9a-f]{64}", item.digest)
            assert all(url.endswith("/" + item.file) for url in item.urls)
        expected = {spellings[0] for files in dataset.layouts[0].files.values() for spellings in files}
        assert expected == {name for item in items for name in item.members or (item.file,)}
