"""Queries on Spark."""

from lowwater.backends.spark.oldest import installed, refuse_older

refuse_older(installed())
