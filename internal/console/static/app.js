// What pages have beyond HTML: local times, copy buttons and live parts. Every page works
// without it.
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

	// A live part asks for itself again by the attributes of htmx, but not while nobody looks at it
	// or a person fills in, chooses or marks something there.
	const busy = "input:focus, textarea:focus, select:focus, input[name=id]:checked, details[open] form";
	document.addEventListener("htmx:beforeRequest", e => {
		const el = e.target;
		if (!el.matches("[data-live]")) return;
		if (document.hidden || el.querySelector(busy) || !getSelection().isCollapsed) e.preventDefault();
	});
	document.addEventListener("htmx:beforeSwap", e => { // something may have begun since
		if (e.target.matches("[data-live]") && e.target.querySelector(busy)) e.detail.shouldSwap = false;
	});
	for (const kind of ["htmx:sendError", "htmx:responseError"]) document.addEventListener(kind, e => {
		if (!e.target.matches("[data-live]") || e.target.querySelector(".trouble")) return;
		const p = document.createElement("p");
		p.className = "trouble";
		p.setAttribute("role", "status");
		p.textContent = "Not up to date: the console does not answer. It is asked again.";
		e.target.prepend(p); // until the part is replaced
	});

	// A page that the back button takes from memory is of before; its forms were sent.
	addEventListener("pageshow", e => { if (e.persisted) location.reload(); });

	document.addEventListener("DOMContentLoaded", () => {
		// In a narrow window the navigation is a row that scrolls.
		const here = document.querySelector("nav [aria-current=page]"), row = here?.closest("ul");
		if (row && row.scrollWidth > row.clientWidth) row.scrollLeft = here.offsetLeft - (row.clientWidth - here.offsetWidth) / 2;
		dress(document);
		showZone();
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
		document.addEventListener("htmx:afterSwap", () => dress(document));
	});
})();
