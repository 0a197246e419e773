// Passkeys. A form with data-signed wants a signature of what the page shows; #new-passkey
// makes a passkey; #passkey-signin signs in with one.
"use strict";
(() => {
	const bytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
	const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

	// asJSON writes a credential as WebAuthn's toJSON does, which older browsers lack.
	function asJSON(c) {
		const r = c.response, out = { id: c.id, rawId: text(c.rawId), type: c.type, clientExtensionResults: {}, response: { clientDataJSON: text(r.clientDataJSON) } };
		if (c.authenticatorAttachment) out.authenticatorAttachment = c.authenticatorAttachment;
		for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
			if (r[name]) out.response[name] = text(r[name]);
		}
		return JSON.stringify(out);
	}

	const sign = (challenge, host, ids) => navigator.credentials.get({ publicKey: {
		challenge: bytes(challenge), rpId: host, userVerification: "required", timeout: 300000,
		allowCredentials: ids.map(id => ({ type: "public-key", id: bytes(id) })),
	} });

	function trouble(form, e) {
		delete form.dataset.sent;
		let p = form.querySelector(".problems");
		if (!p) {
			p = document.createElement("p");
			p.className = "problems";
			p.setAttribute("role", "alert");
			form.append(p);
		}
		p.textContent = e.name === "NotAllowedError" ? "The passkey did not sign. Try again." : "The browser cannot use a passkey here: " + e.message;
	}

	function onSubmit(selector, act) {
		document.querySelectorAll(selector).forEach(form => form.addEventListener("submit", async e => {
			e.preventDefault();
			e.stopPropagation();
			if (form.dataset.signing) return;
			form.dataset.signing = "yes";
			try {
				await act(form);
				form.submit();
			} catch (problem) {
				trouble(form, problem);
			} finally {
				delete form.dataset.signing;
			}
		}));
	}

	document.addEventListener("DOMContentLoaded", () => {
		const signed = async form => {
			form.elements["signed-credential"].value = asJSON(await sign(form.dataset.signed, form.dataset.host, form.dataset.keys.split(" ")));
		};
		onSubmit("form[data-signed]:not(#new-passkey)", signed);
		onSubmit("#new-passkey", async form => {
			if (form.dataset.signed) await signed(form);
			form.elements.credential.value = asJSON(await navigator.credentials.create({ publicKey: {
				challenge: bytes(form.dataset.challenge), rp: { id: form.dataset.rp, name: "countersign" },
				user: { id: new TextEncoder().encode(form.dataset.user), name: form.dataset.userName, displayName: form.dataset.userName },
				pubKeyCredParams: form.dataset.algorithms.split(" ").map(a => ({ type: "public-key", alg: Number(a) })),
				excludeCredentials: (form.dataset.keys || "").split(" ").filter(k => k).map(id => ({ type: "public-key", id: bytes(id) })),
				authenticatorSelection: { residentKey: "required", userVerification: "required" }, attestation: "none", timeout: 300000,
			} }));
		});
		onSubmit("#passkey-signin", async form => {
			form.elements.credential.value = asJSON(await sign(form.dataset.challenge, form.dataset.rp, []));
		});
		document.querySelectorAll("[data-needs-passkeys]").forEach(el => { el.hidden = !window.PublicKeyCredential; });
	});
})();
