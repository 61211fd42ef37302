"use strict";
// The schedule as a table, and one thunk in detail: node, user's line, loops, C side by side.

class ScheduleView {
  constructor(table, report, onSelect) {
    this.table = table;
    this.report = report;
    this.rows = new Map();
    this.measured = report.thunks.some((thunk) => thunk.median !== null);
    this.total = report.thunks.reduce((sum, thunk) => sum + (thunk.median ?? 0), 0);
    this.draw(onSelect);
  }

  draw(onSelect) {
    const head = ["#", "kernel", "node", "results", "MFLOP", "moved"];
    if (this.measured) head.push("time µs", "share", "GFLOP/s", "GB/s");
    this.table.append(row("th", head.map((text, i) => [text, i > 0 && i < 4 ? "text" : ""])));
    let phase = "";
    this.report.thunks.forEach((thunk, index) => {
      if (thunk.phase !== phase) {
        phase = thunk.phase;
        this.table.append(this.phaseRow(phase, head.length));
      }
      const line = row("td", this.cells(thunk, index));
      line.className = "row";
      line.addEventListener("click", () => onSelect("lowered", thunk.node, thunk));
      this.rows.set(thunk, line);
      this.table.append(line);
    });
  }

  phaseRow(phase, columns) {
    const words = phase === "setup" ? "setup: after params change" : "run: the hot path";
    const line = row("td", [[words, ""]]);
    line.className = "phase";
    line.firstChild.colSpan = columns;
    return line;
  }

  cells(thunk, index) {
    const cells = [[`${index}`, ""], [thunk.kernel, "text code"], [clip(thunk.label, 32), "text"],
      [thunk.results.map(typeOnly).join(", ") + (thunk.in_place ? " in place" : ""), "text code"],
      [(thunk.flops / 1e6).toFixed(3), ""], [bytesText(thunk.bytes), ""]];
    if (!this.measured) return cells;
    if (thunk.median === null) return [...cells, ["", ""], ["", ""], ["", ""], ["", ""]];
    const share = thunk.median / this.total;
    return [...cells, [(thunk.median * 1e6).toFixed(2), ""], [bar(share), ""],
      [(thunk.flops / thunk.median / 1e9).toFixed(1), ""],
      [(thunk.bytes / thunk.median / 1e9).toFixed(1), ""]];
  }

  select(id) { // all calls of one node
    for (const [thunk, line] of this.rows) {
      line.classList.toggle("selected", thunk.node === id);
    }
  }
}

function typeOnly(result) { // "f32[8, 10] @128" -> "f32[8, 10]"
  return result.split(" @")[0];
}

function bar(share) {
  const cell = document.createElement("span");
  const box = document.createElement("i");
  box.className = "bar";
  box.style.width = `${Math.max(1, share * 70)}px`;
  cell.append(box, `${(share * 100).toFixed(1)} %`);
  return cell;
}

function row(tag, cells) {
  const line = document.createElement("tr");
  for (const [content, kind] of cells) {
    const cell = document.createElement(tag);
    cell.className = kind;
    cell.append(content);
    line.append(cell);
  }
  return line;
}

// Detail

function showDetail(root, report, node, thunk) {
  const kernel = thunk && report.kernels[thunk.kernel];
  const title = document.createElement("div");
  title.className = "title";
  const name = document.createElement("strong");
  name.textContent = thunk ? thunk.kernel : node.op;
  const facts = document.createElement("span");
  facts.textContent = thunk ? thunkFacts(thunk, kernel) : "no kernel call of its own";
  const close = document.createElement("button");
  close.textContent = "close";
  close.addEventListener("click", () => select(null, null));
  title.append(name, facts, close);
  const panes = [pane("first", [...sourceBlocks(thunk, node), ["node", pre(node.text, "wrap")],
    ...(thunk ? [["operands", pre(thunk.operands.join("\n"), "wrap")],
                 ["results", pre(thunk.results.join("\n"), "wrap")]] : [])])];
  panes.push(pane("", [["loop language", kernel ? code(kernel.loops, "#") : pre("")]]));
  panes.push(pane("", [["C", kernel ? code(kernel.c, "//") : pre("")]]));
  const hasAssembly = Object.values(report.kernels).some((each) => each.assembly);
  root.classList.toggle("with-assembly", hasAssembly);
  if (hasAssembly) panes.push(pane("", [["assembly", pre(kernel ? kernel.assembly : "", "wrap")]]));
  root.replaceChildren(title, ...panes);
  root.hidden = false;
}

function thunkFacts(thunk, kernel) {
  const facts = [`${thunk.phase} phase`];
  if (kernel && kernel.calls > 1) facts.push(`called ${kernel.calls} times`);
  if (thunk.median !== null) facts.push(`${(thunk.median * 1e6).toFixed(2)} µs`);
  return facts.join(", ");
}

function sourceBlocks(thunk, node) {
  if (!thunk) return node.source ? [["your line", pre(node.source)]] : [];
  return thunk.sources.map((source) => {
    const block = pre("");
    source.lines.forEach((text, i) => {
      const line = document.createElement("span");
      if (source.first + i === source.line) line.className = "here";
      const number = document.createElement("span");
      number.className = "number";
      number.textContent = `${String(source.first + i).padStart(4)}  `;
      line.append(number, text, source.first + i === source.line ? "" : "\n");
      block.append(line);
    });
    return [source.place, block];
  });
}

function pane(kind, blocks) {
  const element = document.createElement("div");
  element.className = `pane ${kind}`;
  for (const [title, content] of blocks) {
    const head = document.createElement("h3");
    head.textContent = title;
    element.append(head, content);
  }
  return element;
}

function pre(text, kind = "") {
  const element = document.createElement("pre");
  element.className = kind;
  element.textContent = text;
  return element;
}

const WORDS = /\b(static|const|restrict|void|int|float|double|bool|int64_t|int32_t|uint8_t|for|if|else|while|return|in|let|mut|kernel|parallel|simd|unroll)\b/;

function code(text, comment) {
  const element = pre("", "wrap");
  for (const line of text.split("\n")) {
    const at = line.indexOf(comment === "//" ? "//" : "# ");
    const body = at < 0 ? line : line.slice(0, at);
    for (const [i, part] of body.split(WORDS).entries()) {
      element.append(i % 2 ? span("word", part) : part);
    }
    if (at >= 0) element.append(span("comment", line.slice(at)));
    element.append("\n");
  }
  return element;
}

function span(kind, text) {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = text;
  return element;
}
