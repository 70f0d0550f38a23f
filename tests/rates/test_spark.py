"""Counting runs unchanged where the table lives: on PySpark it gives what DuckDB gives."""

import pyarrow.parquet as pq
import pytest

from safemetry import count_labels, measure_rates, read_evidence
from safemetry.simulate import simulate_large

pyspark = pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    try:
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
    except Exception as error:  # noqa: BLE001 - no Java, or none that this version runs on
        pytest.skip(f"Spark does not start here: {error}")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("spark") / "judgements.parquet"
    simulate_large(made, 12_000, 5, targets=2, epochs=2, judges=2, calls=4)
    return made


def on_spark(spark, path):
    from safemetry import as_evidence

    return as_evidence(spark.read.parquet(str(path)), place="judgements")


@pytest.mark.parametrize(
    "options",
    [
        {"by": ["category", "attack"]},
        {"success": "non_refusal/majority"},
        {"success": "comply/unanimous", "by": ["epoch"]},
    ],
)
def test_claims_on_spark_equal_those_on_duckdb(spark, path, options):
    theirs = measure_rates(on_spark(spark, path), **options)
    ours = measure_rates(read_evidence(str(path)), **options)
    assert theirs.claims == ours.claims
    assert theirs.pairs == ours.pairs
    assert theirs.unclassified == ours.unclassified


def test_label_counts_on_spark_equal_those_on_duckdb(spark, path):
    theirs = count_labels(on_spark(spark, path)).to_pylist()
    assert theirs == count_labels(read_evidence(str(path))).to_pylist()
    assert sum(row["calls"] for row in theirs) == pq.read_metadata(path).num_rows
