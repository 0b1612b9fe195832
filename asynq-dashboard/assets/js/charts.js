// Draws what `data-chart` and `data-spark` hold, by uPlot; colours come from the sheet.

const drawn = new Map();
const HALF_DAY = 43200;
const FONT = "11px sans-serif";

export function charts() {
  if (!window.uPlot) return;
  draw();
  document.addEventListener("page", draw);
  document.addEventListener("theme", () => {
    for (const element of drawn.keys()) erase(element);
    draw();
  });
}

function draw() {
  for (const element of drawn.keys()) if (!element.isConnected) erase(element);
  for (const element of document.querySelectorAll("[data-chart]")) each(element, element.dataset.chart, chart);
  for (const element of document.querySelectorAll("[data-spark]")) each(element, element.dataset.spark, spark);
}

// Draws an element once, and again when its data is new.
function each(element, text, make) {
  if (drawn.get(element)?.text === text) return;
  erase(element);
  drawn.set(element, { text, ...make(element, text) });
}

function erase(element) {
  const old = drawn.get(element);
  old?.plot.destroy();
  old?.watch?.disconnect();
  drawn.delete(element);
}

function colour(element, name) {
  const probe = document.createElement("i");
  probe.className = name ? `state s-${name}` : "soft";
  element.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// The colour over the panel, without shining through: areas of a stack lie on each other.
function solid(element, rgb, share) {
  const panel = getComputedStyle(element.closest(".panel") ?? document.body).backgroundColor.match(/[\d.]+/g).map(Number);
  const mixed = rgb.match(/[\d.]+/g).slice(0, 3).map((v, n) => Math.round(v * share + panel[n] * (1 - share)));
  return `rgb(${mixed.join(", ")})`;
}

const faint = (rgb, alpha) => rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);

const short = (n) => n >= 1e6 ? `${+(n / 1e6).toFixed(1)}M` : n >= 1e4 ? `${+(n / 1e3).toFixed(1)}k` : `${+n.toFixed(n < 10 ? 2 : 0)}`;
const span = (s) => s < 1 ? `${Math.round(s * 1000)} ms` : s < 120 ? `${+s.toFixed(1)} s` : s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
const UNITS = { count: short, rate: (n) => `${short(n)}/s`, span };

// {"k": lines|stack|bars, "u": unit, "t": [seconds], "s": [[state, name, [values]]]}
function chart(element, text) {
  const { k: kind, u: unit, t: times, s: series } = JSON.parse(text);
  const shown = UNITS[unit];
  const soft = colour(element);
  const grid = { stroke: faint(soft, 0.15), width: 1 };
  const sums = series.map(([, , values]) => values);
  if (kind === "stack") {
    for (let n = sums.length - 2; n >= 0; n--) sums[n] = sums[n].map((v, i) => v + sums[n + 1][i]);
  }
  const head = element.parentElement.querySelector("[data-at]");
  const said = head.textContent;
  const plot = new window.uPlot({
    width: element.clientWidth || 300,
    height: element.clientHeight || 132,
    legend: { show: false },
    padding: [8, 26, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 } },
    // Times are those of UTC, as on the rest of the page, and the ticks of days are at its midnights.
    tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    // A bar stands around the midnight that begins its day.
    scales: { x: { time: true, ...(kind === "bars" && { range: (_, low, high) => [low - HALF_DAY, high + HALF_DAY] }) }, y: { range: (_, low, high) => [0, Math.max(high, unit === "count" ? 4 : 1) * 1.05] } },
    axes: [
      { stroke: soft, grid, ticks: { show: false }, size: 24, font: FONT, values: (_, at) => at.map(kind === "bars" ? day : clock(times)), space: 56 },
      { stroke: soft, grid, ticks: { show: false }, size: 48, font: FONT, values: (_, at) => at.map(shown), space: 28 },
    ],
    series: [{}, ...series.map(([state]) => {
      const stroke = colour(element, state);
      const fill = kind === "lines" ? undefined : solid(element, stroke, kind === "stack" ? 0.5 : 0.8);
      return { stroke, fill, width: kind === "bars" ? 0 : 1.5, dash: state === "failed" ? [4, 3] : undefined, points: { show: false },
        paths: kind === "bars" ? window.uPlot.paths.bars({ size: [0.7, 24] }) : undefined };
    })],
    hooks: { setCursor: [(u) => {
      const at = u.cursor.idx;
      const when = kind === "bars" ? day(times[at]) : `${clock(times)(times[at])} UTC`;
      head.textContent = at == null || u.cursor.left < 0 ? said : `${when}: ${series.map(([, name, v]) => `${name} ${shown(v[at])}`).join(", ")}`;
    }] },
  }, [times, ...sums], element);
  const watch = new ResizeObserver(() => {
    if (element.clientWidth && element.clientWidth !== plot.width) plot.setSize({ width: element.clientWidth, height: element.clientHeight });
  });
  watch.observe(element);
  return { plot, watch };
}

// Hours and minutes; seconds where they tell times apart.
const clock = (times) => {
  const parts = { hour: "2-digit", minute: "2-digit", ...(times.at(-1) - times[0] < 300 && { second: "2-digit" }), hourCycle: "h23", timeZone: "UTC" };
  return (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", parts);
};
const day = (seconds) => new Date(seconds * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

// "1,2,3;0,0,1": processed, then failed.
function spark(element, text) {
  const rows = text.split(";").map((row) => row.split(",").map(Number));
  const names = ["processed", "failed"];
  if (!rows[1].some(Boolean)) rows.pop();
  const plot = new window.uPlot({
    width: 90, height: 26, legend: { show: false }, cursor: { show: false }, padding: [2, 0, 2, 0],
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high, 0.2)] } },
    axes: [{ show: false }, { show: false }],
    series: [{}, ...rows.map((_, n) => {
      const stroke = colour(element, names[n]);
      return { stroke, width: 1.25, points: { show: false }, fill: n ? undefined : faint(stroke, 0.15) };
    })],
  }, [rows[0].map((_, n) => n), ...rows], element);
  return { plot };
}
