"""Results in a table of a database, by JDBC.

Spark's own writer has a transaction per partition, so that a failure in between leaves a part of the rows. Here Spark
writes a micro-batch to a table beside the target, which belongs to this output alone. Then the driver moves the rows in
one transaction of the database. In the same transaction it writes down the number of the micro-batch, so that a
repeated one is known and adds nothing:

    lowwater_batches            (output, batch): the last micro-batch of every output that was moved
    <table>_lowwater_<run>      rows of the micro-batch that is being written

With a key, rows of the target that have the key of a new row are deleted first. All databases have this SQL; the forms
of MERGE and ON CONFLICT differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.spark.connect import refuse_connect
from lowwater.backends.spark.outputs import Destination, Output, Plain
from lowwater.errors import LowwaterError, NeedsConfiguration
from lowwater.language.secrets import is_secret

LOG = "lowwater_batches"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")
_NAMED = re.compile(r"([\w.-]+)=([^&;?]+)")
_LOGIN = re.compile(r"[/:]([^/:@]+)@")
"""Of user:password@host, or of user/password@ as Oracle writes it."""


@dataclass(frozen=True)
class Jdbc(Destination):
    """A table of a database. `key` are the columns by which rows replace others."""

    url: str = field(repr=False)  # a password may be in it
    table: str
    key: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.table):
            raise LowwaterError(
                f"to_jdbc() needs the plain name of a table, such as sales.by_hour, not {self.table!r}."
            )

    def check(self, spark: SparkSession) -> None:
        """Connects, and makes nothing."""
        refuse_connect(spark, "to_jdbc(), whose rows the driver moves in a transaction,", "give a function")
        with Database(spark, self):
            pass

    def opened(self, run: str, output: str) -> Output:
        return JdbcOutput(self, run, output)


@dataclass(frozen=True)
class JdbcOutput(Plain):
    """One output of one checkpoint."""

    to: Jdbc
    run: str
    output: str

    @property
    def id(self) -> str:
        return f"{self.run}/{self.output}"

    @property
    def staging(self) -> str:
        return f"{self.to.table}_lowwater_{self.run[:8]}_{self.output}"

    def write(self, rows: DataFrame, batch: int) -> None:
        unknown = [name for name in self.to.key if name not in rows.columns]
        if unknown:
            raise LowwaterError(f"key={unknown[0]!r} of to_jdbc() is no column of {', '.join(rows.columns)}.")
        with Database(rows.sparkSession, self.to) as database:
            if not database.has(LOG):
                database.run(f"CREATE TABLE {LOG} (output VARCHAR(200) PRIMARY KEY, batch BIGINT)")
            if database.number(f"SELECT MAX(batch) FROM {LOG} WHERE output = '{self.id}'", -1) >= batch:
                return
            self._create_target(database, rows)
            if database.has(self.staging):  # left by an attempt that was interrupted
                database.run(f"DROP TABLE {self.staging}")
            database.create(self.staging, rows)
        options = {name: str(value) for name, value in self.to.options.items()}
        rows.write.format("jdbc").options(**options, url=self.to.url, dbtable=self.staging).mode("append").save()
        with Database(rows.sparkSession, self.to) as database:
            with database.transaction():
                self._move(database, rows.columns, batch)
            database.run(f"DROP TABLE {self.staging}")

    def _create_target(self, database: Database, rows: DataFrame) -> None:
        if database.has(self.to.table):
            return
        database.create(self.to.table, rows)
        if self.to.key:
            index = f"{self.to.table.replace('.', '_')}_key"
            database.run(f"CREATE UNIQUE INDEX {index} ON {self.to.table} ({database.quoted(self.to.key)})")

    def _move(self, database: Database, columns: Sequence[str], batch: int) -> None:
        names, key, target = database.quoted(columns), self.to.key, self.to.table
        if key:
            self._check_key(database)
            equal = " AND ".join(f"{target}.{one} = s.{one}" for one in map(database.quote, key))
            database.run(f"DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM {self.staging} s WHERE {equal})")
        database.run(f"INSERT INTO {target} ({names}) SELECT {names} FROM {self.staging}")
        database.run(f"DELETE FROM {LOG} WHERE output = '{self.id}'")
        database.run(f"INSERT INTO {LOG} (output, batch) VALUES ('{self.id}', {batch})")

    def _check_key(self, database: Database) -> None:
        """A key in SQL is unique and has no nulls."""
        key = database.quoted(self.to.key)
        nulls = " OR ".join(f"{name} IS NULL" for name in map(database.quote, self.to.key))
        twice = f"SELECT COUNT(*) FROM (SELECT 1 AS one FROM {self.staging} GROUP BY {key} HAVING COUNT(*) > 1) t"
        for problem, found in (
            ("is null", database.number(f"SELECT COUNT(*) FROM {self.staging} WHERE {nulls}", 0)),
            ("occurs twice in a micro-batch", database.number(twice, 0)),
        ):
            if found:
                raise LowwaterError(
                    f"The key ({', '.join(self.to.key)}) of {self.to.table} {problem} in {found} cases; name columns "
                    "that identify a result, or leave key= out to add all rows."
                )


def hidden(text: str, to: Jdbc) -> str:
    """A text without the secrets of the options and of the URL: a driver may show them where it fails.

    >>> hidden("no route to db?password=abc", Jdbc("jdbc:mysql://me:xyz@db?password=abc", "t"))
    'no route to db?password=***'
    """
    named = [(name, str(value)) for name, value in to.options.items()] + _NAMED.findall(to.url)
    secrets = [value for name, value in named if is_secret(name)] + _LOGIN.findall(to.url)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class Database:
    """A connection from the driver, by the driver of the database that Spark finds."""

    def __init__(self, spark: SparkSession, to: Jdbc) -> None:
        jvm: Any = spark._jvm
        self._utils = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
        self._none = jvm.scala.Option.empty()
        options = {**{name: str(value) for name, value in to.options.items()}, "url": to.url, "dbtable": to.table}
        settings = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
        try:
            self._dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(to.url)
            given = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(settings)
            self._connection = self._dialect.createConnectionFactory(given).apply(-1)
        except Exception as error:  # whatever a driver raises
            text = hidden(str(getattr(error, "java_exception", error)).splitlines()[0], to)
            raise NeedsConfiguration(
                f"The database of to_jdbc() cannot be reached ({text}); its driver must be in spark.jars or "
                "spark.jars.packages, with its class in driver=, and user= and password= must be right."
            ) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.setAutoCommit(False)
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            self._connection.setAutoCommit(True)

    def run(self, sql: str) -> None:
        statement = self._connection.createStatement()
        try:
            statement.executeUpdate(sql)
        finally:
            statement.close()

    def number(self, sql: str, none: int) -> int:
        """The one number that a query returns; `none` for a null."""
        statement = self._connection.createStatement()
        try:
            found = statement.executeQuery(sql)
            found.next()
            value = found.getLong(1)
            return none if found.wasNull() else int(value)
        finally:
            statement.close()

    def has(self, table: str) -> bool:
        statement = self._connection.createStatement()
        try:
            statement.executeQuery(self._dialect.getTableExistsQuery(table)).close()
        except Exception:  # each driver has an error of its own for a table that is absent
            return False
        finally:
            statement.close()
        return True

    def create(self, table: str, rows: DataFrame) -> None:
        """Creates a table with the columns of a DataFrame, in the types that Spark would choose.

        Spark's writer would create it, too, but only where it knows the error of this database for an absent table.
        """
        sensitive = rows.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
        columns = self._utils.schemaString(self._dialect, rows._jdf.schema(), sensitive, self._none)
        self.run(f"CREATE TABLE {table} ({columns})")

    def quote(self, name: str) -> str:
        return str(self._dialect.quoteIdentifier(name))

    def quoted(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.quote, names))
