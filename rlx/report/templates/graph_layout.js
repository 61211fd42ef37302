"use strict";
// Layered layout of a graph with nested scopes, without drawing anything.
//
// A unit is a node, a folded scope, or an open scope with a layout of its own: units of one
// scope are ranked by longest path, ordered by barycenters, and aligned with their neighbors.
// Edges that skip ranks hold a lane open through thin units called bends.

const GAP_X = 22, GAP_Y = 34, MARGIN = 16, TITLE = 20, BEND = 10;

// "encoder.layer.0.attention" -> ["encoder", "layer.0", "attention"]
function scopeParts(scope) {
  return scope ? scope.split(/\.(?!\d)/) : [];
}

function scopeTree(nodes) {
  const root = { path: "", name: "", scopes: new Map(), nodes: [], count: 0 };
  for (const node of nodes) {
    let place = root;
    root.count += 1;
    for (const part of scopeParts(node.scope)) {
      const path = place.path ? `${place.path}.${part}` : part;
      if (!place.scopes.has(part)) {
        place.scopes.set(part, { path, name: part, scopes: new Map(), nodes: [], count: 0 });
      }
      place = place.scopes.get(part);
      place.count += 1;
    }
    place.nodes.push(node);
  }
  return flattened(root);
}

// A scope of one node is no scope worth a box.
function flattened(scope) {
  for (const [name, inner] of [...scope.scopes]) {
    flattened(inner);
    if (inner.count > 1) continue;
    scope.nodes.push(...inner.nodes);
    scope.scopes.delete(name);
  }
  return scope;
}

function allScopes(scope) {
  return [...scope.scopes.values()].flatMap((inner) => [inner, ...allScopes(inner)]);
}

function nodeUnit(node) {
  const title = node.label || node.op;
  const longest = Math.max(title.length * 6.8, node.type.length * 6.4);
  return { kind: "node", node, members: [node.id], first: node.id, title,
           width: Math.max(64, Math.min(longest + 18, 330)), height: 38 };
}

function foldedUnit(scope) {
  const members = memberIds(scope);
  const title = `${scope.name} (${scope.count})`;
  return { kind: "folded", scope, members, first: Math.min(...members), title,
           width: title.length * 7 + 32, height: 34 };
}

function memberIds(scope) {
  return [...scope.nodes.map((node) => node.id), ...[...scope.scopes.values()].flatMap(memberIds)];
}

function layoutScope(scope, edges, folded) {
  const units = scope.nodes.map(nodeUnit);
  for (const inner of scope.scopes.values()) {
    units.push(folded.has(inner.path) ? foldedUnit(inner) : layoutScope(inner, edges, folded));
  }
  units.sort((a, b) => a.first - b.first);
  const owner = new Map(units.flatMap((unit) => unit.members.map((id) => [id, unit])));
  const links = linksBetween(edges, owner);
  const ranks = rank(units, links);
  const rows = order(placeBends(units, links, ranks), links);
  const width = align(rows);
  let y = scope.path ? TITLE + 8 : 0;
  for (const row of rows) {
    const height = Math.max(...row.map((unit) => unit.height));
    for (const unit of row) unit.y = y + (height - unit.height) / 2;
    y += height + GAP_Y;
  }
  const pad = scope.path ? MARGIN : 0;
  for (const row of rows) for (const unit of row) unit.x += pad;
  const members = units.flatMap((unit) => unit.members);
  return { kind: "open", scope, units, links, members, first: Math.min(...members),
           title: scope.name, width: Math.max(width + 2 * pad, scope.name.length * 7 + 24),
           height: y - GAP_Y + pad };
}

function linksBetween(edges, owner) {
  const found = new Map();
  for (const [from, to] of edges) {
    const a = owner.get(from), b = owner.get(to);
    if (!a || !b || a === b) continue;
    found.set(`${from}>${to}`, { from, to, a, b, forward: a.first < b.first, bends: [] });
  }
  return [...found.values()];
}

function rank(units, links) {
  const ranks = new Map(units.map((unit) => [unit, 0]));
  const forward = links.filter((link) => link.forward);
  for (const unit of units) { // sorted by first member: operands come before their users
    for (const { a, b } of forward) {
      if (b === unit) ranks.set(unit, Math.max(ranks.get(unit), ranks.get(a) + 1));
    }
  }
  for (const unit of units) { // a source moves down to just above its first user
    if (forward.some((link) => link.b === unit)) continue;
    const below = forward.filter((link) => link.a === unit).map((link) => ranks.get(link.b));
    if (below.length) ranks.set(unit, Math.min(...below) - 1);
  }
  return ranks;
}

function placeBends(units, links, ranks) {
  const rows = Array.from({ length: Math.max(0, ...ranks.values()) + 1 }, () => []);
  for (const unit of units) {
    unit.above = []; unit.below = [];
    rows[ranks.get(unit)].push(unit);
  }
  const lanes = new Map(); // edges from one unit share its lane
  for (const link of links.filter((each) => each.forward)) {
    let previous = link.a;
    for (let r = ranks.get(link.a) + 1; r < ranks.get(link.b); r++) {
      const key = `${link.a.first}@${r}`;
      if (!lanes.has(key)) {
        const bend = { kind: "bend", width: BEND, height: 0, above: [previous], below: [] };
        previous.below.push(bend);
        rows[r].push(bend);
        lanes.set(key, bend);
      }
      previous = lanes.get(key);
      link.bends.push(previous);
    }
    if (!previous.below.includes(link.b)) previous.below.push(link.b);
    if (!link.b.above.includes(previous)) link.b.above.push(previous);
  }
  return rows.filter((row) => row.length);
}

function order(rows) {
  const place = (row) => row.forEach((unit, i) => { unit.slot = i; });
  const mean = (list) => list.reduce((sum, unit) => sum + unit.slot, 0) / list.length;
  const sweep = (row, side) => {
    const keys = new Map(row.map((u) => [u, u[side].length ? mean(u[side]) : u.slot]));
    row.sort((a, b) => keys.get(a) - keys.get(b));
    place(row);
  };
  rows.forEach(place);
  for (let round = 0; round < 6; round++) {
    rows.slice(1).forEach((row) => sweep(row, "above"));
    rows.slice(0, -1).reverse().forEach((row) => sweep(row, "below"));
  }
  return rows;
}

// Give every unit an x; returns the width taken.
function align(rows) {
  const center = (unit) => unit.x + unit.width / 2;
  for (const row of rows) {
    let x = 0;
    for (const unit of row) { unit.x = x; x += unit.width + GAP_X; }
  }
  for (let round = 0; round < 12; round++) {
    const downwards = round % 2 === 0;
    for (const row of downwards ? rows : [...rows].reverse()) {
      settle(row, (unit) => {
        const all = downwards ? unit.above : unit.below;
        if (!all.length) return unit.x;
        const alike = all.filter((other) => (other.kind === "bend") === (unit.kind === "bend"));
        const near = alike.length ? alike : all; // keeps chains and lanes straight
        return near.reduce((sum, other) => sum + center(other), 0) / near.length - unit.width / 2;
      });
    }
  }
  const all = rows.flat();
  const left = Math.min(...all.map((unit) => unit.x));
  for (const unit of all) unit.x -= left;
  return Math.max(...all.map((unit) => unit.x + unit.width));
}

// Move the units of a row towards where they want to be, without overlap.
function settle(row, wanted) {
  const wish = row.map(wanted);
  const leftmost = [...wish], rightmost = [...wish];
  for (let i = 1; i < row.length; i++) {
    leftmost[i] = Math.max(leftmost[i], leftmost[i - 1] + row[i - 1].width + GAP_X);
  }
  for (let i = row.length - 2; i >= 0; i--) {
    rightmost[i] = Math.min(rightmost[i], rightmost[i + 1] - row[i].width - GAP_X);
  }
  row.forEach((unit, i) => { unit.x = (leftmost[i] + rightmost[i]) / 2; });
}
