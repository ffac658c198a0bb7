"""Tables in an object store are read by polars' own readers, from a server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.learn.patterns.from_telemetry import BasketRequest, make_baskets
from telemetry_tables import reveal_table

pytest.importorskip("moto", reason="the S3 server is an extra")
BUCKET = "telemetry"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    yield client
    server.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_an_object_store_gives_the_levels_of_a_folder(tmp_path: Path, bucket: object) -> None:
    for i, ending in enumerate(("parquet", "csv")):
        table, path = reveal_table(seed=i), tmp_path / f"r{i}.{ending}"
        table.write_parquet(path) if ending == "parquet" else table.write_csv(path)
        bucket.upload_file(str(path), BUCKET, f"runs/{path.name}")  # type: ignore[attr-defined]
    request = BasketRequest(paths=(f"s3://{BUCKET}/runs/",), window_s=1.0)

    remote = make_baskets(request).baskets

    local = make_baskets(BasketRequest(paths=(str(tmp_path),), window_s=1.0)).baskets
    assert remote.runs == local.runs == ("r0", "r1")
    assert np.array_equal(remote.levels, local.levels)
    with pytest.raises(StewardError, match="nothing can be listed here"):
        make_baskets(BasketRequest(paths=(f"s3://{BUCKET}/none/",), window_s=1.0))
