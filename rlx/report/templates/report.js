"use strict";
// Wires the views: what is selected in one is shown in all.

const report = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

function hint(element, text) {
  element.addEventListener("pointerenter", () => { tip.textContent = text; tip.hidden = false; });
  element.addEventListener("pointerleave", () => { tip.hidden = true; });
}

window.addEventListener("pointermove", (event) => {
  if (tip.hidden) return;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10}px`;
});

function bytesText(count) {
  const units = ["B", "KB", "MB", "GB"];
  let size = count, unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit += 1; }
  return unit === 0 ? `${count} B` : `${size.toFixed(1)} ${units[unit]}`;
}

function facts() {
  const { arena, thunks, lowered, kernels } = report;
  const run = thunks.filter((thunk) => thunk.phase === "run");
  const entries = [["nodes", `${report.written.length} written, ${lowered.length} compiled`],
    ["kernels", `${Object.keys(kernels).length} in ${thunks.length} calls`],
    ["arena", bytesText(arena.bytes)]];
  const total = run.reduce((sum, thunk) => sum + (thunk.median ?? 0), 0);
  if (total) entries.push(["run", `${(total * 1e6).toFixed(1)} µs`]);
  for (const [name, value] of entries) {
    const item = document.createElement("div");
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    item.append(term, text);
    document.getElementById("facts").append(item);
  }
  document.getElementById("arena-facts").textContent =
    `${bytesText(arena.bytes)} in all, ${bytesText(arena.resident)} of them resident; the most ` +
    `alive at once are ${bytesText(arena.live_bytes)}, and without sharing it would take ` +
    `${bytesText(arena.unshared)}.`;
  document.getElementById("schedule-facts").textContent = report.measured
    ? `Times: ${report.measured}, ${report.machine}.` : "Not measured: pass --measure for times.";
}

facts();
arenaLegend(document.getElementById("arena-legend"));
const graphView = new GraphView(document.getElementById("graph-view"),
  document.getElementById("graph-tools"),
  { lowered: report.lowered, written: report.written }, select);
const arenaView = new ArenaView(document.getElementById("arena-view"), report.arena, select);
const scheduleView = new ScheduleView(document.getElementById("schedule-table"), report, select);

function select(which, id, chosen = null) {
  const detail = document.getElementById("detail");
  document.body.classList.toggle("selected", id !== null);
  const linked = which === "written" ? null : id;
  for (const view of [graphView, arenaView, scheduleView]) view.select(linked);
  if (id === null) { detail.hidden = true; return; }
  const node = report[which].find((each) => each.id === id);
  showDetail(detail, report, node, which === "lowered" ? chosen ?? mainThunk(id) : null);
}

// Of several calls that one node makes, the one with most work.
function mainThunk(id) {
  const calls = report.thunks.filter((thunk) => thunk.node === id);
  return calls.sort((a, b) => b.flops - a.flops)[0] ?? null;
}

window.addEventListener("keydown", (event) => { if (event.key === "Escape") select(null, null); });
window.addEventListener("resize", () => arenaView.draw());
const asked = new URLSearchParams(location.hash.slice(1)).get("node"); // report.html#node=6
if (asked !== null) select("lowered", Number(asked));
