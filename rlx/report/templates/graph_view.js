"use strict";
// The graph as SVG: scopes fold and open, the view pans and zooms.

const SVG = "http://www.w3.org/2000/svg";
const FOLD_ABOVE = 40; // visible nodes

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

class GraphView {
  constructor(root, tools, graphs, onSelect) {
    this.root = root;
    this.graphs = graphs;
    this.onSelect = onSelect;
    this.shown = "lowered";
    this.leaves = false;
    this.selected = null;
    this.addTools(tools);
    this.addGestures();
    this.show(this.shown);
  }

  nodes() {
    const hidden = (node) => !this.leaves && (node.kind === "param" || node.kind === "constant");
    return this.graphs[this.shown].filter((node) => !hidden(node));
  }

  show(which) {
    this.shown = which;
    const tree = scopeTree(this.nodes());
    this.folded = new Set(tree.count > FOLD_ABOVE ? allScopes(tree).map((s) => s.path) : []);
    this.draw();
    this.fit();
  }

  draw() {
    const nodes = this.nodes();
    const visible = new Set(nodes.map((node) => node.id));
    const edges = nodes.flatMap((node) =>
      node.operands.filter((id) => visible.has(id)).map((id) => [id, node.id]));
    this.root.replaceChildren();
    this.elements = new Map();
    this.lines = [];
    if (!nodes.length) return;
    this.layout = layoutScope(scopeTree(nodes), edges, this.folded);
    this.place(this.layout, 0, 0);
    const scene = svg("g");
    this.drawBoxes(this.layout, scene);
    this.drawEdges(this.layout, scene);
    this.drawNodes(this.layout, scene);
    this.root.append(scene);
    this.mark();
  }

  place(unit, x, y) { // absolute positions, outside in
    for (const inner of unit.units) {
      inner.left = x + inner.x;
      inner.top = y + inner.y;
      if (inner.kind === "open") this.place(inner, inner.left, inner.top);
    }
    for (const bend of new Set(unit.links.flatMap((link) => link.bends))) {
      bend.left = x + bend.x;
      bend.top = y + bend.y;
    }
  }

  drawBoxes(unit, scene) {
    for (const inner of openUnits(unit)) {
      this.drawBox(inner, scene);
      this.drawBoxes(inner, scene);
    }
  }

  drawNodes(unit, scene) {
    for (const inner of unit.units) {
      if (inner.kind === "open") this.drawNodes(inner, scene);
      else scene.append(inner.kind === "node" ? this.drawNode(inner) : this.drawFolded(inner));
    }
  }

  drawEdges(unit, scene) {
    const leaf = (owner, id) => {
      if (owner.kind !== "open") return owner;
      return leaf(owner.units.find((inner) => inner.members.includes(id)), id);
    };
    for (const link of unit.links) {
      const from = leaf(link.a, link.from), to = leaf(link.b, link.to);
      const path = svg("path", { class: "edge", d: edgePath(from, link.bends, to) });
      this.lines.push({ path, from: link.from, to: link.to });
      scene.append(path);
    }
    for (const inner of openUnits(unit)) this.drawEdges(inner, scene);
  }

  drawBox(unit, scene) {
    const box = svg("g", { class: "scope" },
      svg("rect", { x: unit.left, y: unit.top, width: unit.width, height: unit.height }),
      svg("text", { x: unit.left + 10, y: unit.top + 15 }, `− ${unit.title}`));
    box.firstChild.addEventListener("click", () => this.toggle(unit.scope.path));
    hint(box, `${unit.scope.path}: click to fold`);
    scene.append(box);
  }

  drawNode(unit) {
    const { node } = unit, middle = unit.left + unit.width / 2;
    const group = svg("g", { class: "node" },
      svg("rect", { x: unit.left, y: unit.top, width: unit.width, height: unit.height,
                    fill: `var(--${node.kind})` }),
      svg("text", { x: middle, y: unit.top + 16 }, clip(unit.title, 46)),
      svg("text", { x: middle, y: unit.top + 31, class: "type" }, clip(node.type, 48)));
    hint(group, `${node.text}\n${node.source}`);
    group.addEventListener("click", () => this.onSelect(this.shown, node.id));
    this.elements.set(node.id, group);
    return group;
  }

  drawFolded(unit) {
    const group = svg("g", { class: "node folded" },
      svg("rect", { x: unit.left, y: unit.top, width: unit.width, height: unit.height }),
      svg("text", { x: unit.left + unit.width / 2, y: unit.top + 21 }, `+ ${unit.title}`));
    hint(group, `${unit.scope.path}: ${unit.scope.count} nodes, click to open`);
    group.addEventListener("click", () => this.toggle(unit.scope.path));
    for (const id of unit.members) this.elements.set(id, group);
    return group;
  }

  toggle(path) {
    if (!this.folded.delete(path)) this.folded.add(path);
    this.draw();
  }

  mark() {
    for (const element of this.elements.values()) element.classList.remove("selected");
    if (this.shown === "lowered" && this.selected !== null) {
      this.elements.get(this.selected)?.classList.add("selected");
    }
    for (const { path, from, to } of this.lines) {
      const lit = this.shown === "lowered" && (from === this.selected || to === this.selected);
      path.classList.toggle("lit", lit);
    }
  }

  select(id) {
    this.selected = id;
    this.mark();
  }

  // View box

  fit() {
    const drawn = (this.layout?.height ?? 100) + 60;
    this.root.style.height = `${Math.max(240, Math.min(drawn, window.innerHeight * 0.7, 760))}px`;
    const view = this.root.getBoundingClientRect();
    const width = (this.layout?.width ?? 100) + 40, height = (this.layout?.height ?? 100) + 40;
    const whole = Math.max(width / view.width, height / view.height, 0.6);
    const scale = whole > 1.5 ? 1.15 : whole; // a long graph starts readable, at its top
    this.box = { x: -20 - (view.width * scale - width) / 2, y: -20,
                 width: view.width * scale, height: view.height * scale };
    if (scale === whole) this.box.y -= (view.height * scale - height) / 2;
    this.applyBox();
  }

  applyBox() {
    const { x, y, width, height } = this.box;
    this.root.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }

  zoom(factor, px = 0.5, py = 0.5) {
    const { x, y, width, height } = this.box;
    this.box = { x: x + width * px * (1 - factor), y: y + height * py * (1 - factor),
                 width: width * factor, height: height * factor };
    this.applyBox();
  }

  addGestures() {
    let last = null, moved = 0;
    this.root.addEventListener("pointerdown", (event) => { last = event; moved = 0; });
    window.addEventListener("pointermove", (event) => {
      if (!last) return;
      const scale = this.box.width / this.root.clientWidth;
      this.box.x -= (event.clientX - last.clientX) * scale;
      this.box.y -= (event.clientY - last.clientY) * scale;
      moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
      this.root.classList.toggle("dragging", moved > 4);
      last = event;
      this.applyBox();
    });
    window.addEventListener("pointerup", () => {
      last = null;
      this.root.classList.remove("dragging");
    });
    this.root.addEventListener("click", (event) => { // the end of a drag selects nothing
      if (moved > 4) event.stopPropagation();
    }, true);
    this.root.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) return;
      event.preventDefault();
      const view = this.root.getBoundingClientRect();
      const px = (event.clientX - view.left) / view.width;
      const py = (event.clientY - view.top) / view.height;
      this.zoom(event.deltaY + event.deltaX > 0 ? 1.15 : 1 / 1.15, px, py);
    }, { passive: false });
  }

  addTools(tools) {
    const add = (text, act, pressed) => {
      const button = document.createElement("button");
      button.textContent = text;
      if (pressed !== undefined) button.setAttribute("aria-pressed", pressed);
      button.addEventListener("click", () => act(button));
      tools.append(button);
      return button;
    };
    const pick = (which) => {
      lowered.setAttribute("aria-pressed", which === "lowered");
      written.setAttribute("aria-pressed", which === "written");
      this.show(which);
    };
    const lowered = add("as compiled", () => pick("lowered"), true);
    const written = add("as written", () => pick("written"), false);
    add("params and constants", (button) => {
      this.leaves = !this.leaves;
      button.setAttribute("aria-pressed", this.leaves);
      this.draw();
      this.fit();
    }, false);
    add("open all", () => { this.folded.clear(); this.draw(); this.fit(); });
    add("fold all", () => {
      this.folded = new Set(allScopes(scopeTree(this.nodes())).map((scope) => scope.path));
      this.draw();
      this.fit();
    });
    add("fit", () => this.fit());
    add("+", () => this.zoom(1 / 1.3));
    add("−", () => this.zoom(1.3));
    const words = document.createElement("span");
    words.className = "hint";
    words.textContent = "drag to move, Ctrl + wheel to zoom, click a scope to fold it";
    tools.append(words);
  }
}

function openUnits(unit) {
  return unit.units.filter((inner) => inner.kind === "open");
}

function edgePath(from, bends, to) {
  const points = [[from.left + from.width / 2, from.top + from.height],
    ...bends.map((bend) => [bend.left + bend.width / 2, bend.top]),
    [to.left + to.width / 2, to.top]];
  let path = `M${points[0][0]},${points[0][1]}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i];
    const pull = Math.max(12, Math.abs(y1 - y0) / 2);
    path += `C${x0},${y0 + pull} ${x1},${y1 - pull} ${x1},${y1}`;
  }
  return path;
}

function clip(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
