// What pages have beyond HTML: local times, copy buttons, live parts and charts. Every
// page works without it.
"use strict";
(() => {
	// Times come in UTC. They are shown in the viewer's zone, with UTC as their title,
	// unless the viewer has chosen UTC.
	const utc = () => localStorage.getItem("countersign-zone") === "utc";
	const pad = n => String(n).padStart(2, "0");
	function showTime(el) {
		const d = new Date(el.dateTime);
		if (isNaN(d)) return;
		const asUTC = d.toISOString().slice(0, 19).replace("T", " ") + " UTC";
		const local = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
		el.textContent = utc() ? asUTC : local;
		el.title = utc() ? local + " here" : asUTC;
	}

	function addCopy(el) {
		if (el.querySelector(".copy")) return;
		const b = document.createElement("button");
		b.type = "button";
		b.className = "copy";
		b.textContent = "copy";
		b.setAttribute("aria-label", "Copy " + el.dataset.copy.slice(0, 40));
		b.addEventListener("click", async () => {
			try {
				await navigator.clipboard.writeText(el.dataset.copy);
				b.textContent = "copied";
			} catch { // not allowed, or no TLS: select it for the viewer
				const range = document.createRange();
				range.selectNodeContents(el.querySelector("bdi"));
				getSelection().removeAllRanges();
				getSelection().addRange(range);
				b.textContent = "selected";
			}
			setTimeout(() => { b.textContent = "copy"; }, 1500);
		});
		el.append(b);
	}

	function dress(root) {
		root.querySelectorAll("time[datetime]").forEach(showTime);
		root.querySelectorAll("[data-copy]").forEach(addCopy);
	}

	function showZone() {
		const b = document.querySelector("[data-zone]");
		if (!b) return;
		b.textContent = utc() ? "UTC" : "local (" + (Intl.DateTimeFormat().resolvedOptions().timeZone || "this machine") + ")";
		b.closest(".zone").hidden = false;
	}

	// Charts. The live part carries their numbers as columns; each chart shows some.
	const charts = [];
	function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		charts.splice(0).forEach(c => c.destroy());
		draw();
	});
	function draw() {
		const source = document.querySelector("[data-series]");
		if (!source || typeof uPlot === "undefined") return;
		const columns = JSON.parse(source.dataset.series);
		document.querySelectorAll("[data-chart]").forEach((el, i) => {
			const wanted = el.dataset.columns.split(",").map(Number), names = el.dataset.names.split(",");
			const data = [columns[0], ...wanted.map(c => columns[c])];
			if (charts[i]) {
				charts[i].setData(data);
				return;
			}
			const inks = [colour(el.dataset.chart === "failed" ? "--bad" : "--accent"), colour("--soft")];
			const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
			charts[i] = new uPlot({
				width: el.clientWidth, height: 150, cursor: { drag: { x: false, y: false } }, legend: { show: false },
				scales: { y: { range: (u, min, max) => [0, Math.max(max || 0, 1)] } },
				axes: [{ ...axis, space: 60, size: 26, values: "{HH}:{mm}" }, { ...axis, size: 44 }],
				series: [{}, ...wanted.map((c, n) => ({ label: names[n], stroke: inks[n], width: 1.5, points: { show: wanted.length > 1 || undefined, size: 3 }, spanGaps: false }))],
			}, data, el);
			el.setAttribute("role", "img");
			if (!el.dataset.watched) new ResizeObserver(() => charts[i]?.setSize({ width: el.clientWidth, height: 150 })).observe(el);
			el.dataset.watched = "yes";
		});
		document.querySelectorAll("[data-chart]").forEach(el => {
			const last = el.dataset.columns.split(",").map(c => columns[c].findLast(x => x !== null)).map(x => x === undefined ? "none" : x);
			el.setAttribute("aria-label", el.previousElementSibling.textContent + ": last " + last.join(" and "));
		});
	}

	// Live parts. A page that is not looked at closes its stream: browsers have few
	// connections for each host.
	function live(el) {
		let stream = null;
		const close = () => { if (stream) stream.close(); stream = null; };
		const trouble = text => {
			let p = el.parentElement.querySelector(".trouble");
			if (!text) { if (p) p.remove(); return; }
			if (!p) {
				p = document.createElement("p");
				p.className = "trouble";
				p.setAttribute("role", "status");
				el.before(p);
			}
			p.textContent = text;
		};
		const open = () => {
			if (stream) return;
			stream = new EventSource(el.dataset.live);
			stream.addEventListener("part", e => {
				const focused = el.contains(document.activeElement) && document.activeElement.id;
				const typing = el.querySelector("input:focus, textarea:focus, select:focus, input[name=id]:checked, details[open] form");
				if (typing) return; // what a person fills in stays
				el.innerHTML = e.data;
				dress(el);
				if (window.htmx) htmx.process(el);
				if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
				trouble("");
				draw();
			});
			stream.addEventListener("trouble", e => trouble("Not up to date: " + e.data));
			stream.addEventListener("ended", () => { close(); location.reload(); });
			stream.onerror = () => trouble("Not up to date: the connection is broken. It is tried again.");
		};
		document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
		addEventListener("pagehide", close);
		if (!document.hidden) open();
	}

	// A page that the back button takes from memory is of before; its forms were sent.
	addEventListener("pageshow", e => { if (e.persisted) location.reload(); });

	document.addEventListener("DOMContentLoaded", () => {
		// In a narrow window the navigation is a row that scrolls.
		const here = document.querySelector("nav [aria-current=page]"), row = here?.closest("ul");
		if (row && row.scrollWidth > row.clientWidth) row.scrollLeft = here.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
		dress(document);
		showZone();
		draw();
		document.querySelectorAll("[data-live]").forEach(live);
		document.querySelector("[data-zone]")?.addEventListener("click", () => {
			localStorage.setItem("countersign-zone", utc() ? "local" : "utc");
			document.querySelectorAll("time[datetime]").forEach(showTime);
			showZone();
		});
		document.addEventListener("keydown", e => {
			if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, [contenteditable]")) return;
			const box = document.querySelector("[data-everything]");
			if (box) { e.preventDefault(); box.focus(); box.select(); }
		});
		// One post for one click.
		document.addEventListener("submit", e => {
			if (e.target.method !== "post") return;
			if (e.target.dataset.sent) { e.preventDefault(); return; }
			e.target.dataset.sent = "yes";
			addEventListener("pageshow", () => { delete e.target.dataset.sent; }, { once: true });
		});
		document.addEventListener("htmx:afterSwap", e => dress(e.target.parentElement || document));
	});
})();
