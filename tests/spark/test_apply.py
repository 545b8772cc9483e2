"""apply() on Spark: the same checks of what a function returns as over tables, and the same sentences."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from tests.test_apply import ROWS, moved, stream

pytestmark = pytest.mark.spark

SENTENCE = (
    r"^(Query over 'a': )?apply\(\) changed 'window_end', on which its rows progress; return it as it is, and add a "
    r"column for new times\.$"
)
SHOWN = pa.schema([("window_end", pa.int64()), ("n", pa.int64())])


def counts(spark: SparkSession) -> lw.Relation:
    return stream(spark.createDataFrame(ROWS)).window(5).agg(n=lw.count())


def by_spark(relation: lw.Relation) -> lw.Relation:
    """Behind a step that only Spark evaluates, so that whatever follows it runs between two stages."""
    return relation.with_column("hash", "sha2(string(n), 256)")


@pytest.mark.parametrize("between", [False, True])
def test_a_function_that_changes_a_time_that_progresses_is_refused_in_one_sentence(
    spark: SparkSession, between: bool
) -> None:
    given = by_spark(counts(spark)) if between else counts(spark)
    query = given.apply(moved, given.schema).window(10, over="window_end").agg(n=lw.count())
    with pytest.raises(lw.LowwaterError, match=SENTENCE):
        query.collect()


def test_a_function_behind_the_last_operator_is_checked_too(spark: SparkSession) -> None:
    given = by_spark(counts(spark))
    with pytest.raises(lw.LowwaterError, match=SENTENCE):
        given.apply(moved, given.schema).collect()


def test_a_function_between_stages_does_not_see_hidden_columns_which_stay_with_their_rows(spark: SparkSession) -> None:
    def shown(rows: pa.Table) -> pa.Table:
        assert rows.column_names == [*SHOWN.names, "hash"]
        return rows.select(SHOWN.names)

    given = by_spark(counts(spark).select(*SHOWN.names))
    found = given.apply(shown, SHOWN).window(10).agg(n=lw.sum("n")).collect()
    expected = counts(spark).select(*SHOWN.names).window(10).agg(n=lw.sum("n")).collect()
    assert found.equals(expected)
    assert found.num_rows == 2
    assert given.apply(shown, SHOWN).collect().column_names == SHOWN.names
