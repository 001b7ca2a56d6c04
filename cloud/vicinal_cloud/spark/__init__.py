"""Fleet data as tables on Spark, live and historical (DESIGN 7). README.md beside this file shows how.

    session     a SparkSession that is ready: Java found, workers with our Python, quiet
    events      logs as a table, of all that is there by now
    source      the data source `vicinal`: event logs as tables, batch and streaming; writer: and back
    traffic     positions, speeds of segments, offences and what else follows from what vehicles say

pyspark is imported by the modules that need it, and not here: workers load as little as they can.
"""
