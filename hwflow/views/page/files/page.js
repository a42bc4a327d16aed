"use strict";
// Comforts of a page that is complete without them: sorting, hover texts, highlights, zoom.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // A press on a column's title sorts the table by it, a second press in the other order.
  const valueOf = (cell) => {
    if (!cell) return "";
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(cell.dataset.value ?? text.replace(/[\s,\u202f]/g, "").replace(/%$/, ""));
    return text !== "" && Number.isFinite(number) ? number : text.toLowerCase();
  };
  const compared = (a, b) => {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const heads = all("thead tr:last-child > th", table);
    if (!body || body.rows.length < 2 || all("[colspan], [rowspan]", table).length) continue;
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
        rows.sort(([a], [b]) => {
          const last = a === "" || b === "";
          return order === "ascending" || last ? compared(a, b) : compared(b, a);
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // What rests under the pointer says what it is at once; without a script the browser does it after a second.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  let titled = null;
  const release = () => {
    if (titled) titled.owner.prepend(titled.title);
    titled = null;
    tip.hidden = true;
  };
  const follow = (event) => {
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 6);
    const below = event.clientY + 18;
    tip.style.left = `${Math.max(6, left)}px`;
    tip.style.top = `${below + box.height > innerHeight ? event.clientY - box.height - 10 : below}px`;
  };
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch" || !(event.target instanceof Element)) return;
    let owner = event.target.closest("svg *");
    while (owner && owner.tagName !== "svg" && !(titled && titled.owner === owner)
           && !all(":scope > title", owner).length) owner = owner.parentElement;
    if (titled && owner === titled.owner) return;
    release();
    if (!owner || owner.tagName === "svg") return;
    const title = owner.querySelector(":scope > title");
    tip.textContent = title.textContent;
    if (!tip.textContent) return;
    title.remove();
    titled = { owner, title };
    tip.hidden = false;
    follow(event);
  });
  document.addEventListener("pointermove", (event) => { if (titled) follow(event); });
  document.addEventListener("scroll", release, { passive: true, capture: true });
  document.documentElement.addEventListener("pointerleave", release);

  // The same stage in all pictures and tables.
  let marked = "";
  const mark = (name) => {
    if (name === marked) return;
    for (const each of all(".same, .near")) each.classList.remove("same", "near");
    marked = name;
    if (!name) return;
    for (const each of all("[data-stage]")) each.classList.toggle("same", each.dataset.stage === name);
    for (const each of all("[data-from], [data-to]"))
      each.classList.toggle("near", each.dataset.from === name || each.dataset.to === name);
  };
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const owner = event.target instanceof Element
        && (event.target.closest("[data-stage]") || event.target.querySelector(":scope > [data-stage]:only-child"));
      mark(owner ? owner.dataset.stage : "");
    });
  }

  // A picture that can be zoomed: buttons, drag, keys, and the wheel with the control key (so that the page scrolls).
  const button = (text, name, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", name);
    made.addEventListener("click", action);
    return made;
  };
  const zoomable = (view) => {
    const pictures = all("svg", view);
    const states = new Map(pictures.map((svg) => {
      const [, , width, height] = svg.getAttribute("viewBox").split(/\s+/).map(Number);
      return [svg, { width, height, x: 0, y: 0, scale: 1 }];
    }));
    const shown = () => pictures.find((svg) => svg.getClientRects().length) || pictures[0];
    const show = (svg) => {
      const s = states.get(svg);
      s.scale = Math.min(12, Math.max(1, s.scale));
      const width = s.width / s.scale, height = s.height / s.scale;
      s.x = Math.min(s.width - width, Math.max(0, s.x));
      s.y = Math.min(s.height - height, Math.max(0, s.y));
      svg.setAttribute("viewBox", `${s.x} ${s.y} ${width} ${height}`);
    };
    const zoom = (factor, at) => {
      const svg = shown(), s = states.get(svg), box = svg.getBoundingClientRect();
      const u = at ? (at.clientX - box.left) / box.width : 0.5, v = at ? (at.clientY - box.top) / box.height : 0.5;
      const before = s.scale, next = Math.min(12, Math.max(1, before * factor));
      s.x += u * s.width * (1 / before - 1 / next);
      s.y += v * s.height * (1 / before - 1 / next);
      s.scale = next;
      show(svg);
    };
    const move = (dx, dy) => {
      const svg = shown(), s = states.get(svg);
      s.x += dx * s.width / s.scale;
      s.y += dy * s.height / s.scale;
      show(svg);
    };
    const fit = () => { const svg = shown(); Object.assign(states.get(svg), { x: 0, y: 0, scale: 1 }); show(svg); };
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "Zoom of the picture");
    const help = document.createElement("span");
    help.textContent = "drag to move, Ctrl and wheel to zoom; + \u2212 0 and arrow keys";
    tools.append(button("+", "Zoom in", () => zoom(1.4)), button("\u2212", "Zoom out", () => zoom(1 / 1.4)),
                 button("fit", "Show the whole picture", fit), help);
    view.before(tools);
    view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), event);
    }, { passive: false });
    view.addEventListener("keydown", (event) => {
      const actions = {
        "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit,
        ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0),
        ArrowUp: () => move(0, -0.1), ArrowDown: () => move(0, 0.1),
      };
      const zoomed = states.get(shown()).scale > 1;
      if (!(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key.startsWith("Arrow") && !zoomed) return;
      event.preventDefault();
      actions[event.key]();
    });
    let drag = null;
    view.addEventListener("pointerdown", (event) => {
      if (event.button || states.get(shown()).scale === 1) return;
      drag = { x: event.clientX, y: event.clientY, far: false };
    });
    view.addEventListener("pointermove", (event) => {
      if (!drag) return;
      if (!drag.far && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 5) return;
      if (!drag.far) view.setPointerCapture(event.pointerId);
      drag.far = true;
      const box = shown().getBoundingClientRect();
      move((drag.x - event.clientX) / box.width, (drag.y - event.clientY) / box.height);
      drag.x = event.clientX;
      drag.y = event.clientY;
      view.classList.add("moving");
    });
    const end = () => { setTimeout(() => { drag = null; view.classList.remove("moving"); }); };
    view.addEventListener("pointerup", end);
    view.addEventListener("pointercancel", end);
    view.addEventListener("dragstart", (event) => event.preventDefault());
    view.addEventListener("click", (event) => { if (drag && drag.far) event.preventDefault(); }, true);
  };
  for (const view of all(".zoomable")) zoomable(view);

  // The section in view, in the contents; Escape closes a card.
  const links = new Map(all(".contents a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.classList.remove("here");
      links.get(entry.target.id)?.classList.add("here");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) { const part = document.getElementById(id); if (part) seen.observe(part); }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.querySelector(".card:target")) location.hash = "closed";
  });
})();
