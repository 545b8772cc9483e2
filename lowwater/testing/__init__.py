"""Tests of streaming queries, without Spark: docs/testing.md is the tutorial.

    Script                 runs a query step by step, and shows what comes out after each step
    assert_same_as_batch   compares the answers over many orders of arrival with the batch answer
    output_accuracy        the share of the batch answer that a run has produced, where it may lose results
    stream                 declares an input of a query under test
    at                     a time of day, for rows
    disordered             rows in an order of arrival, by the patterns of lowwater.generate

Fixtures for pytest are in lowwater/testing/plugin.py, which is loaded where lowwater is installed.
"""

from lowwater.generate import Band, Blocks, Delay
from lowwater.testing.accuracy import output_accuracy
from lowwater.testing.arrival import disordered
from lowwater.testing.query import stream
from lowwater.testing.same import assert_same_as_batch
from lowwater.testing.script import Script, Step
from lowwater.testing.times import at

__all__ = [
    "Band",
    "Blocks",
    "Delay",
    "Script",
    "Step",
    "assert_same_as_batch",
    "at",
    "disordered",
    "output_accuracy",
    "stream",
]
