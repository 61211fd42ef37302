"use strict";
// The arena as a picture: time to the right, offsets downwards.
//
// What stays resident (params, constants, results of setup) is usually far larger than what a
// run works with, so it gets a band of its own, on a scale of its own.

const BAND = 70, PLOT = 380, LIVE = 60, LEFT = 84, TOP = 18, ROW = 22;
const SLOT_KINDS = ["input", "param", "constant", "setup", "temporary", "output", "scratch"];

class ArenaView {
  constructor(root, arena, onSelect) {
    this.root = root;
    this.arena = arena;
    this.onSelect = onSelect;
    this.rects = new Map();
    this.draw();
  }

  draw() {
    const { arena } = this;
    const names = arena.live.length - arena.first <= 70 ? 104 : 18;
    const width = Math.max(700, this.root.clientWidth || 1100);
    const working = arena.bytes - arena.resident;
    const plotTop = TOP + BAND + 14;
    const plot = working > 0 ? PLOT : 10;
    const liveTop = plotTop + plot + 22;
    const height = liveTop + LIVE + names;
    // Everything before the run phase shares one column: nothing is freed there.
    const columns = arena.live.length - arena.first + 1;
    const stepWidth = (width - LEFT - 12) / columns;
    const x = (step) => LEFT + Math.max(0, step - arena.first + 1) * stepWidth;
    const band = (offset) => TOP + (offset / Math.max(1, arena.resident)) * BAND;
    const y = (offset) => (offset < arena.resident ? band(offset)
      : plotTop + ((offset - arena.resident) / Math.max(1, working)) * plot);
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.style.height = `${height}px`;
    this.root.replaceChildren();

    this.axis(y, plotTop, plot, working, width);
    const views = arena.slots.filter(isView);
    for (const slot of [...arena.slots.filter((each) => !isView(each)), ...views]) {
      const inset = isView(slot) ? Math.min(2, stepWidth / 6) : 0;
      const top = y(slot.offset), bottom = bottomOf(slot, arena, y, band);
      const box = { x: x(slot.birth) + inset, y: top + inset,
                    width: Math.max(1, x(slot.death + 1) - x(slot.birth) - 2 * inset),
                    height: Math.max(0.8, bottom - top - 2 * inset) };
      this.rect(slot, box);
    }
    this.liveCurve(x, liveTop, stepWidth);
    this.peak(x, plotTop, plot, stepWidth, liveTop);
    this.stepNames(x, liveTop + LIVE + 12, stepWidth, names);
  }

  axis(y, plotTop, plot, working, width) {
    const line = (at) => this.root.append(
      svg("line", { class: "grid", x1: LEFT, x2: width - 12, y1: at, y2: at }));
    const text = (at, words) => this.root.append(
      svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, words));
    text(TOP + BAND / 2, "resident");
    text(TOP + BAND / 2 + 14, bytesText(this.arena.resident));
    line(plotTop - 7);
    if (working <= 0) return;
    for (let part = 0; part <= 4; part++) {
      const at = plotTop + (plot * part) / 4;
      line(at);
      text(at, bytesText(Math.round((working * part) / 4)));
    }
  }

  rect(slot, box) {
    const rect = svg("rect", { ...box, class: slotClass(slot),
                               fill: `var(--${slot.kind})` });
    hint(rect, [slot.label, slot.relation,
      `${bytesText(slot.size)} at ${slot.offset}, steps ${slot.birth} to ${slot.death}`,
      slot.kind].filter(Boolean).join("\n"));
    rect.addEventListener("click", () => this.onSelect("lowered", slot.node));
    if (!this.rects.has(slot.node)) this.rects.set(slot.node, []);
    this.rects.get(slot.node).push(rect);
    this.root.append(rect);
    const words = shortLabel(slot);
    if (!isView(slot) && box.height > 13 && box.width > words.length * 6.4 + 8) {
      this.root.append(svg("text", { class: "inside", x: box.x + 5,
                                     y: box.y + box.height / 2 + 4 }, words));
    }
  }

  liveCurve(x, top, stepWidth) {
    const live = this.arena.live;
    const base = Math.min(...live), span = Math.max(1, Math.max(...live) - base);
    const level = (value) => top + LIVE - ((value - base) / span) * (LIVE - 4);
    let path = "";
    live.forEach((value, step) => {
      if (step < this.arena.first - 1) return;
      path += `${path ? "L" : "M"}${x(step)},${level(value)}L${x(step) + stepWidth},${level(value)}`;
    });
    this.root.append(svg("path", { class: "live", d: path }));
    this.root.append(svg("text", { x: LEFT - 8, y: top + 8, "text-anchor": "end" }, "live"));
    this.root.append(svg("text", { x: LEFT - 8, y: top + 22, "text-anchor": "end" },
                         bytesText(Math.max(...live))));
    this.root.append(svg("text", { x: LEFT - 8, y: top + LIVE, "text-anchor": "end" },
                         bytesText(base)));
  }

  peak(x, plotTop, plot, stepWidth, liveTop) {
    const { peak, live } = this.arena;
    const at = x(peak) + stepWidth / 2;
    const right = at > this.root.viewBox.baseVal.width * 0.75;
    this.root.append(svg("line", { class: "peak", x1: at, x2: at, y1: TOP, y2: liveTop + LIVE }));
    this.root.append(svg("text", { class: "peak-text", x: at + (right ? -6 : 6), y: 12,
                                   "text-anchor": right ? "end" : "start" },
                         `peak: ${bytesText(live[peak])} at step ${peak}`));
  }

  stepNames(x, top, stepWidth, room) {
    const every = Math.max(1, Math.ceil(40 / Math.max(1, stepWidth)));
    const first = Math.max(0, this.arena.first - 1);
    this.arena.steps.slice(first).forEach((step_name, i) => {
      const step = first + i, name = step < this.arena.first ? "setup" : step_name;
      const at = x(step) + stepWidth / 2;
      if (room > ROW && stepWidth >= 12) {
        this.root.append(svg("text", { x: at, y: top, "text-anchor": "end",
          transform: `rotate(-50 ${at} ${top})` }, clip(name, 16)));
      } else if (i % every === 0) {
        this.root.append(svg("text", { x: at, y: top, "text-anchor": "middle" }, `${step}`));
      }
    });
  }

  select(id) {
    for (const rects of this.rects.values()) rects.forEach((r) => r.classList.remove("selected"));
    (this.rects.get(id) ?? []).forEach((rect) => rect.classList.add("selected"));
  }
}

function isView(slot) {
  return slot.relation.startsWith("view");
}

function slotClass(slot) {
  if (!slot.relation) return "slot";
  return isView(slot) ? "slot view" : "slot in-place";
}

function bottomOf(slot, arena, y, band) {
  const end = slot.offset + slot.size;
  return slot.offset < arena.resident ? band(Math.min(end, arena.resident)) : y(end);
}

// "%7 matmul 'w': f32[8, 8]" -> "%7 matmul 'w'"
function shortLabel(slot) {
  const colon = slot.label.lastIndexOf(":");
  return clip(colon > 0 ? slot.label.slice(0, colon) : slot.label, 40);
}

function arenaLegend(root) {
  for (const kind of SLOT_KINDS) {
    const item = document.createElement("span");
    const color = document.createElement("i");
    color.style.background = `var(--${kind})`;
    item.append(color, kind === "setup" ? "made by setup" : kind);
    root.append(item);
  }
  for (const [kind, words] of [["view", "view of what is below"],
    ["in-place", "written in place of its operand"]]) {
    const item = document.createElement("span");
    const box = document.createElement("i");
    box.className = kind;
    item.append(box, words);
    root.append(item);
  }
}
