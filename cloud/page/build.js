// The page as it is served: our modules as they are, and the libraries beside them in lib/. Nothing is bundled, so what
// a browser shows of it is what stands in src/. Written aside and then put in its place: half a page is never served.
import { cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = new URL("./", import.meta.url);
const goal = new URL("../vicinal_cloud/traffic/static/", here);
const made = new URL("../vicinal_cloud/traffic/static.new/", here);
const modules = new URL("node_modules/", here);

const LIBRARIES = {
  "maplibre-gl.mjs": "maplibre-gl/dist/maplibre-gl.mjs",
  "maplibre-gl-worker.mjs": "maplibre-gl/dist/maplibre-gl-worker.mjs",
  "maplibre-gl.css": "maplibre-gl/dist/maplibre-gl.css",
  "maplibre-gl-LICENSE.txt": "maplibre-gl/LICENSE.txt",
  "uplot.mjs": "uplot/dist/uPlot.esm.js",
  "uplot.css": "uplot/dist/uPlot.min.css",
  "uplot-LICENSE.txt": "uplot/LICENSE",
};

await rm(made, { recursive: true, force: true });
await cp(new URL("src/", here), made, { recursive: true });
await mkdir(new URL("lib/", made));
for (const [name, from] of Object.entries(LIBRARIES)) {
  const text = await readFile(new URL(from, modules), "utf8");
  // Maps of sources are not shipped, and nobody shall look for them.
  await writeFile(new URL(`lib/${name}`, made), text.replace(/\n\/\/# sourceMappingURL=\S+\s*$/, "\n"));
}
await rm(goal, { recursive: true, force: true });
await rename(made, goal);
console.log(`the page is in ${fileURLToPath(goal)}`);
