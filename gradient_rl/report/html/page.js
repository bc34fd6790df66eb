(() => {
"use strict";
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const names = data.policies, series = 6, tie = 1e-9;
/* What the page's own data is without, and an observation that is JSON may hold as escapes: control characters and the like. */
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ud800-\udfff\u{e0000}-\u{e007f}]/gu;
const words = name => name.replaceAll("_", " ");
const signed = value => (value > 0 ? "+" : "−") + Math.abs(value).toFixed(2);

/* Everything is put on the page as text: an element, its class, and children that are text or elements. */
const h = (tag, cls, ...children) => {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
};
const set = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const drawn = (tag, attributes, ...children) => {
  const element = set(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);
  element.append(...children);
  return element;
};
const hidden = text => h("span", "vh", text);
const bar = (value, colour) => drawn("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true"},
  drawn("rect", {class: "track", width: 100, height: 10}), drawn("rect", {class: colour, width: 100 * value, height: 10}));
const colourOf = name => "p" + names.indexOf(name) % series;

/* Dark and light */
const theme = $("theme"), root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; set(theme, {"aria-label": `Show the page in ${isDark() ? "light" : "dark"} colours`}); };
const stored = (action, fallback) => { try { return action(); } catch { return fallback; } };
root.dataset.theme = stored(() => localStorage.getItem("gradient-theme"), "") || "";
theme.hidden = false;
nameTheme();
prefersDark.addEventListener("change", nameTheme);
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  stored(() => localStorage.setItem("gradient-theme", root.dataset.theme));
  nameTheme();
});

/* Records */
const dialog = $("record");
const openRecord = id => {
  const record = data.records[id];
  const close = set(h("button", "", "Close"), {type: "button"});
  close.addEventListener("click", () => dialog.close());
  const title = set(h("h2", "", record.title), {id: "record-title"});
  const lines = record.lines.map(([name, value]) => h("div", "", h("dt", "", name), h("dd", "", h("bdi", "", value))));
  dialog.replaceChildren(h("header", "", h("p", "small", `${id} · ${record.kind} · ${record.date}`), close, title),
    h("dl", "", ...lines), set(h("div", "body", record.body), {tabindex: "0"}));
  dialog.showModal();
  dialog.scrollTop = 0;
  close.focus();
};
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
const chip = (id, kind, meaning) => {
  const record = Object.hasOwn(data.records, id) ? data.records[id] : null;
  const mark = {req: "✓ ", wrong: "✗ ", neutral: "○ "}[kind] || "";
  const element = h(record ? "button" : "span", `chip ${kind || ""}`, mark + id, meaning ? hidden(`, ${meaning}`) : null);
  if (!record) return set(element, {title: "its text is not in this file"});
  element.addEventListener("click", () => openRecord(id));
  return set(element, {type: "button", title: record.title});
};

if (!data.tasks.length) return;

/* The table of tasks */
const table = $("table"), rows = [...table.tBodies[0].rows], headers = [...table.tHead.rows[0].cells];
const state = {a: data.pair[0], b: data.pair[1], kind: "all", family: "", behaviour: "", text: "", key: "", down: false, open: -1, samples: {}};
const run = (task, name) => Object.hasOwn(task.runs, name) ? task.runs[name] : null;
const change = task => {
  const first = run(task, state.a), second = run(task, state.b);
  return first && second && first.reward !== null && second.reward !== null ? second.reward - first.reward : null;
};
const runs = task => [...new Set([state.a, state.b])].map(name => run(task, name)).filter(Boolean);
const kinds = {
  all: () => true,
  failing: task => { const last = run(task, state.b); return Boolean(last) && !last.right; },
  regressed: task => change(task) < -tie,
  improved: task => change(task) > tie,
  malformed: task => runs(task).some(each => each.malformed),
};
const haystack = data.tasks.map(task => [task.id, task.question, task.expected, ...task.required.flat(), ...Object.values(task.runs)
  .flatMap(each => [each.answer, ...each.sources, ...each.episodes.flatMap(e => [e.answer, ...e.sources])])].join("\n").toLowerCase());
const fits = (task, place) => (!state.family || task.family === state.family)
  && (!state.behaviour || runs(task).some(each => each.episodes.some(e => e.behaviours.includes(state.behaviour))))
  && state.text.toLowerCase().split(/\s+/).every(word => haystack[place].includes(word));
const valueOf = (task, key) => {
  if (key === "id" || key === "family") return task[key];
  if (key === "change") return change(task);
  const found = run(task, names[key]);
  return found ? found.reward : null;
};
const compared = (first, second) => {
  if (first === null || second === null) return (first === null) - (second === null) || 0;
  const order = typeof first === "string" ? first.localeCompare(second, "en", {numeric: true}) : first - second;
  return state.down ? -order : order;
};
let shown = [];
const update = () => {
  const fitting = data.tasks.map((task, place) => place).filter(place => fits(data.tasks[place], place));
  for (const button of document.querySelectorAll("[data-kind]")) {
    const count = fitting.filter(place => kinds[button.dataset.kind](data.tasks[place])).length;
    button.lastElementChild.textContent = count;
    button.setAttribute("aria-pressed", button.dataset.kind === state.kind);
  }
  shown = fitting.filter(place => kinds[state.kind](data.tasks[place]));
  if (state.key) shown.sort((i, j) => compared(valueOf(data.tasks[i], state.key), valueOf(data.tasks[j], state.key)) || i - j);
  const listed = new Set(shown);
  rows.forEach((row, place) => { row.hidden = !listed.has(place); });
  table.tBodies[0].append(...shown.map(place => rows[place]));
  $("nothing").hidden = shown.length > 0;
  $("count").textContent = `${shown.length} of ${data.tasks.length} tasks`;
  placeInList();
};
const comparePair = () => {
  const two = state.a !== state.b;
  headers.forEach((header, column) => {
    const key = header.dataset.key;
    if (key === "change") header.hidden = !two;
    if (!header.classList.contains("policy")) return;
    const other = names[key] !== state.a && names[key] !== state.b;
    for (const row of table.rows) row.cells[column].classList.toggle("other", other);
  });
  rows.forEach((row, place) => {
    const cell = row.cells[row.cells.length - 1], value = change(data.tasks[place]);
    const moved = value !== null && Math.abs(value) > tie;
    cell.hidden = !two;
    cell.className = "n change" + (moved ? value > 0 ? " good" : " bad" : "");
    cell.textContent = value === null ? "–" : moved ? `${value > 0 ? "▲" : "▼"} ${signed(value)}` : "same";
  });
  $("a").value = state.a;
  $("b").value = state.b;
};
for (const header of headers) {
  const button = set(h("button", "", header.textContent), {type: "button"});
  header.replaceChildren(button);
  button.addEventListener("click", () => {
    const key = header.dataset.key;
    state.down = state.key === key ? !state.down : key !== "id" && key !== "family" && key !== "change";
    state.key = key;
    for (const each of headers) each.setAttribute("aria-sort", each === header ? state.down ? "descending" : "ascending" : "none");
    update();
  });
}

/* One task: two policies side by side */
const detail = $("detail");
const argumentsOf = step => Object.entries(step.arguments);
const isOpening = step => step.tool.startsWith("open_");
const anchor = step => step.tool === "submit_answer" ? step.tool
  : isOpening(step) ? step.tool + "\n" + (step.ids[0] || step.arguments.id) : step.tool + "\n" + JSON.stringify(argumentsOf(step)).toLowerCase();
const same = (first, second) => JSON.stringify(first) === JSON.stringify(second);
/* Pairs of steps: the longest common sequence of calls stands in line, what is between is paired from its start. */
const align = (first, second) => {
  const length = first.map(() => []);
  const at = (i, j) => i < first.length && j < second.length ? length[i][j] : 0;
  for (let i = first.length - 1; i >= 0; i--) for (let j = second.length - 1; j >= 0; j--)
    length[i][j] = anchor(first[i]) === anchor(second[j]) ? 1 + at(i + 1, j + 1) : Math.max(at(i + 1, j), at(i, j + 1));
  const pairs = [];
  let i = 0, j = 0, p = 0, q = 0;
  const between = () => { while (p < i || q < j) pairs.push([p < i ? p++ : -1, q < j ? q++ : -1]); };
  while (i < first.length && j < second.length) {
    if (anchor(first[i]) === anchor(second[j])) { between(); pairs.push([i++, j++]); p = i; q = j; }
    else if (at(i + 1, j) >= at(i, j + 1)) i++; else j++;
  }
  i = first.length; j = second.length;
  between();
  return pairs;
};
const slotIds = task => new Set(task.required.flat().map(id => id.toLowerCase()));
const evidence = (task, id, needed) => needed.has(id.toLowerCase()) ? ["req", "required"] : ["", ""];
const observed = (task, step, needed) => {
  if (step.text === null) return null;
  const text = data.texts[step.text];
  let hits = null;
  try { hits = JSON.parse(text, (_, value) => typeof value === "string" ? value.replace(unseen, "") : value).hits; } catch { /* not every observation is JSON, and one may be cut */ }
  const body = Array.isArray(hits) && hits.every(hit => hit && typeof hit.id === "string")
    ? h("ul", "hits", ...hits.map(hit => h("li", "", h("div", "", chip(hit.id, ...evidence(task, hit.id, needed)), ` ${hit.title ?? hit.subject ?? ""} `,
      h("span", "small", String(hit.date ?? ""))), h("p", "", String(hit.snippet ?? "")))))
    : set(h("pre", "", text), {tabindex: "0"});
  return h("details", "", h("summary", "", "what it saw"), body);
};
const cell = (task, name, episode, place, needed) => {
  if (place < 0) return h("div", `cell gap ${colourOf(name)}`, hidden(`${name}: no call here`));
  const step = episode.steps[place];
  const box = h("div", `cell ${colourOf(name)}`), call = h("div", "call", hidden(`${name}, call `), h("span", "no", String(place + 1)), h("b", "", words(step.tool)));
  box.append(call);
  if (step.tool === "submit_answer") return box;
  const [main, ...rest] = argumentsOf(step);
  if (main && !(isOpening(step) && step.ids.length)) call.append(h(isOpening(step) ? "em" : "q", "", h("bdi", "", main[1])));
  for (const [key, value] of rest) call.append(h("span", "small", `${words(key)}: `, h("bdi", "", value)));
  if (step.error) box.append(h("p", "refused", `refused: ${step.error}`));
  else if (isOpening(step)) for (const id of step.ids) {
    call.append(chip(id, ...evidence(task, id, needed)));
    if (Object.hasOwn(data.records, id)) box.append(h("p", "small", data.records[id].title));
  }
  else box.append(step.ids.length ? h("div", "chips", ...step.ids.map(id => chip(id, ...evidence(task, id, needed)))) : h("p", "small", "nothing found"));
  const saw = observed(task, step, needed);
  if (saw) box.append(saw);
  return box;
};
const part = each => [h("span", "", words(each.name)), bar(each.value, "fill"),
  h("span", "worth", `${each.value.toFixed(2)} × ${each.weight.toFixed(2)} = `, h("b", "", (each.value * each.weight).toFixed(2))),
  each.lost.length ? h("ul", "", ...each.lost.map(reason => h("li", "", reason))) : null].filter(Boolean);
const source = (task, episode, id, needed) => {
  const opened = episode.steps.some(step => isOpening(step) && !step.error && step.ids.some(each => each.toLowerCase() === id.trim().toLowerCase()));
  if (needed.has(id.trim().toLowerCase()) && opened) return chip(id, "req", "required");
  if (task.neutral.includes(id)) return chip(id, "neutral", "neither needed nor wrong");
  return task.required.length ? chip(id, "wrong", opened ? "proves nothing" : "never opened") : chip(id);
};
const side = (task, name, episode, count, needed) => {
  const head = h("header", "", h("strong", "", name));
  if (count > 1) {
    const choice = set(h("select"), {"aria-label": `Sample of ${name}`});
    run(task, name).episodes.forEach((each, place) => choice.append(new Option(`sample ${each.sample + 1}: ${each.total === null ? "no reward" : each.total.toFixed(2)}`, place)));
    choice.value = state.samples[name] || 0;
    choice.addEventListener("change", () => {
      state.samples[name] = Number(choice.value);
      render();
      detail.querySelector(`select[aria-label="${CSS.escape(choice.getAttribute("aria-label"))}"]`)?.focus();
    });
    head.append(choice, h("span", "small", `mean of ${run(task, name).samples}: ${run(task, name).reward?.toFixed(2) ?? "none"}`));
  }
  const total = episode ? episode.total : run(task, name) ? run(task, name).reward : null;
  head.append(h("span", "big", total === null ? "no reward" : total.toFixed(2)));
  const box = h("section", `side ${colourOf(name)}`, head);
  set(box, {"aria-label": name});
  const answer = episode ? episode.answer : run(task, name)?.answer;
  box.append(h("div", "parts", ...(episode ? episode.parts.flatMap(part) : []), episode?.error ? h("p", "bad", episode.error) : null));
  box.append(h("div", "answer", h("h4", "", "Answer"), answer === null || answer === undefined
    ? h("p", "bad", `none: ${episode ? words(episode.stop) : "not played"}`) : h("p", "", h("bdi", "", answer))));
  const chips = episode ? episode.sources.map(id => source(task, episode, id, needed)) : (run(task, name)?.sources || []).map(id => chip(id));
  box.append(h("div", "", h("h4", "", "Sources"), chips.length ? h("div", "chips", ...chips) : h("p", "small", "none")));
  if (!episode) {
    box.append(h("p", "small", run(task, name)?.samples ? "Its steps are left out, to keep this page small." : "Its trajectory is not in these files."));
    return box;
  }
  const tags = episode.behaviours.map(each => h("span", `tag ${each === "malformed" ? "bad" : ""}`, words(each)));
  box.append(h("p", "small", `${episode.steps.length} of at most ${episode.max_calls} calls, ${words(episode.stop)} `, ...tags.flatMap(tag => [tag, " "])));
  return box;
};
const tick = (label, yes) => h("span", yes ? "yes" : "", `${yes ? "✓" : "✗"} ${label}`, hidden(yes ? "" : ": no"));
const slots = (task, sides) => {
  const body = task.required.map((slot, place) => h("tr", "", set(h("th", "chips", ...slot.map(id => chip(id, "", ""))), {scope: "row"}),
    ...sides.map(([, episode]) => h("td", "ticks", ...(episode ? ["found", "read", "cited"].map(stage => tick(stage, episode[stage].includes(place))) : ["–"])))));
  const head = h("tr", "", h("th", "", "record"), ...sides.map(([name]) => set(h("th", colourOf(name), name), {scope: "col"})));
  return h("div", "scroll", h("table", "", h("thead", "", head), h("tbody", "", ...body)));
};
const stepRows = (task, sides, needed) => {
  const [first, second] = sides;
  const pairs = second ? align(first[1].steps, second[1].steps) : first[1].steps.map((step, place) => [place]);
  const differs = ([i, j]) => second && (i < 0 || j < 0 || !same(first[1].steps[i], second[1].steps[j]));
  const parting = pairs.findIndex(differs);
  return h("ol", "steps", ...pairs.map((pair, number) => {
    const row = h("li", `row${differs(pair) ? "" : " same"}${number === parting ? " first" : ""}`);
    if (number === parting) row.append(h("span", "mark-first", "first divergence"));
    row.append(...sides.map(([name, episode], place) => cell(task, name, episode, pair[place], needed)));
    return row;
  }));
};
const render = () => {
  const task = data.tasks[state.open], needed = slotIds(task);
  const chosen = [...new Set([state.a, state.b])].map(name => {
    const episodes = run(task, name)?.episodes || [];
    return [name, episodes[state.samples[name] || 0] || episodes[0] || null, episodes.length];
  });
  const played = chosen.filter(([, episode]) => episode);
  const title = set(h("h3", "", task.question), {id: "detail-title", tabindex: "-1"});
  const step = (label, by, key) => {
    const button = set(h("button", "", label), {type: "button", "aria-keyshortcuts": key, id: by < 0 ? "previous" : "next"});
    button.addEventListener("click", () => { move(by); $(button.id)?.focus(); });
    return button;
  };
  const head = h("div", "bar-top", h("strong", "", task.id), h("span", "tag", words(task.family)), task.as_of ? h("span", "", `asked on ${task.as_of}`) : null,
    ...(data.tasks.length > 1 ? [set(h("span", "place"), {id: "place"}), step("Previous", -1, "p"), step("Next", 1, "n")] : []));
  const known = h("div", "known", task.expected ? h("div", "", h("h4", "", "Right answer"), h("p", "", task.expected)) : null,
    task.required.length ? h("div", "", h("h4", "", "Required evidence"), slots(task, chosen)) : null);
  detail.className = `detail${chosen.length > 1 ? "" : " one"}`;
  detail.replaceChildren(head, title, known, h("div", "sides", ...chosen.map(([name, episode, count]) => side(task, name, episode, count, needed))));
  if (played.length) detail.append(h("h4", "steps-head", played.length > 1 ? "Step by step; equal calls stand side by side" : `Step by step, ${played[0][0]}`),
    stepRows(task, played, needed));
  detail.classList.toggle("lone", played.length === 1);
  detail.hidden = false;
  placeInList();
};
let telling = 0;
const placeInList = () => {
  if (state.open < 0 || !$("place")) return;
  clearTimeout(telling);
  const at = shown.indexOf(state.open);
  $("place").textContent = at < 0 ? "not among those filtered" : `${at + 1} of ${shown.length}`;
  $("said").textContent = `${data.tasks[state.open].id}, ${$("place").textContent}`;
  $("previous").disabled = at === 0 || !shown.length;
  $("next").disabled = at === shown.length - 1 || !shown.length;
};
const link = () => "#" + new URLSearchParams({task: data.tasks[state.open].id, a: state.a, b: state.b});
const show = (place, remember) => {
  if (place !== state.open) state.samples = {};
  rows[state.open]?.classList.remove("open");
  rows[state.open]?.querySelector("a").removeAttribute("aria-current");
  state.open = place;
  rows[place].classList.add("open");
  set(rows[place].querySelector("a"), {"aria-current": "true"});
  render();
  if (remember) history.replaceState(null, "", link());
};
const revealRow = () => {
  const box = table.parentElement, row = rows[state.open];
  const above = row.offsetTop - table.tHead.offsetHeight, below = row.offsetTop + row.offsetHeight - box.clientHeight;
  if (box.scrollTop > above) box.scrollTop = above; else if (box.scrollTop < below) box.scrollTop = below;
};
/* What is told twice is said twice only if it was gone in between. */
const tell = text => {
  $("place").textContent = text;
  $("said").textContent = "";
  clearTimeout(telling);
  telling = setTimeout(() => { $("said").textContent = text; }, 50);
};
const move = by => {
  if (!shown.length || data.tasks.length < 2) return;
  const at = shown.indexOf(state.open);
  if (at >= 0 && !shown[at + by] && shown[at + by] !== 0) return tell(`${data.tasks[state.open].id} is the ${by > 0 ? "last" : "first"} of ${shown.length}`);
  const next = at < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, at + by));
  show(shown[next], true);
  revealRow();
  if (detail.getBoundingClientRect().top > innerHeight * .6 || detail.getBoundingClientRect().top < 0) detail.scrollIntoView({block: "start"});
};
const missing = wanted => [...new Set([
  ...(wanted.has("task") && data.tasks.every(task => task.id !== wanted.get("task")) ? [`no task ${wanted.get("task")}`] : []),
  ...["a", "b"].filter(key => wanted.has(key) && !names.includes(wanted.get(key))).map(key => `no policy ${wanted.get(key)}`),
])];
/* The address: the task that it names, or else the first one. */
const follow = () => {
  const wanted = new URLSearchParams(location.hash.slice(1)), missed = missing(wanted);
  const place = data.tasks.findIndex(task => task.id === wanted.get("task"));
  $("missed").hidden = !missed.length;
  $("missed").textContent = missed.length ? `On this page there is ${missed.join(" and ")}.` : "";
  for (const key of ["a", "b"]) if (names.includes(wanted.get(key))) state[key] = wanted.get(key);
  comparePair();
  update();
  if (place < 0 && state.open >= 0 && ![..."ab"].some(key => wanted.has(key))) {
    if (missed.length) $("tasks").scrollIntoView({block: "start"});
    return;
  }
  show(place >= 0 ? place : Math.max(0, state.open), false);
  revealRow();
  if (missed.length) $("tasks").scrollIntoView({block: "start"});
  else if (place >= 0) detail.scrollIntoView({block: "start"});
  if (place >= 0) $("detail-title").focus({preventScroll: true});
};
addEventListener("hashchange", follow);
rows.forEach((row, place) => row.addEventListener("click", event => {
  if (getSelection().toString() || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  show(place, true);
  detail.scrollIntoView({block: "start"});
  $("detail-title").focus({preventScroll: true});
}));
$("filters").addEventListener("submit", event => event.preventDefault());
for (const id of ["a", "b"]) $(id).addEventListener("change", () => {
  state[id] = $(id).value;
  comparePair();
  update();
  if (state.open >= 0) show(state.open, true);
});
for (const id of ["family", "behaviour", "text"]) $(id).addEventListener("input", () => { state[id] = $(id).value; update(); });
for (const button of document.querySelectorAll("[data-kind]")) button.addEventListener("click", () => { state.kind = button.dataset.kind; update(); });
$("clear").addEventListener("click", () => {
  Object.assign(state, {kind: "all", family: "", behaviour: "", text: ""});
  for (const id of ["family", "behaviour", "text"]) $(id).value = "";
  update();
  $("text").focus();
});
addEventListener("keydown", event => {
  if (dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === $("text")) event.target.blur();
  if (event.target.closest?.("input, select, textarea")) return;
  if (event.key === "n") move(1);
  else if (event.key === "p") move(-1);
  else if (event.key === "/") { event.preventDefault(); $("text").focus(); $("text").select(); }
});
$("filters").hidden = $("list").hidden = $("count").hidden = data.tasks.length === 1;
follow();
})();
