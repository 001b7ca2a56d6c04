"""Linear Road, the benchmark of stream systems (Arasu et al., VLDB 2004): tolls that depend on traffic. README.md
beside this file says by which rules, and how to run it.

    segments    cars and latest average velocity, by the minute
    accidents   stopped vehicles, and the accidents they make
    tolls       the tariff of a minute
    direction   one direction of one expressway: reports in; notifications, alerts and charges out
    accounts    what vehicles have paid, and balance queries
    history     what they paid on other days
    desk        all of it together: the rows of the answers
    rows        the input's rows; `reading` reads files of them; `generate` makes some

These decide and never wait, and know nothing of Spark. `plain` runs them in one process; `streaming`, `sink` and
`feeding` run them on Spark, with the input as events through a broker.
"""
