package admin

import "net/http"

const (
	get    = http.MethodGet
	post   = http.MethodPost
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

// routes is the whole API. /metrics is beside it, since it is not JSON.
func (s *Server) routes() []route {
	return []route{
		{post, "/v1/merchants", "createMerchant", operator, 201, handle(s.createMerchant), "Make a merchant and its keys", []int{409}},
		{get, "/v1/merchants", "merchants", viewer, 200, handle(s.merchants), "List merchants by id", nil},
		{get, "/v1/merchants/{id}", "merchant", viewer, 200, handle(s.merchant), "Show one merchant", nil},
		{patch, "/v1/merchants/{id}", "updateMerchant", operator, 200, handle(s.updateMerchant), "Change members of a merchant; null clears optional ones", nil},
		{post, "/v1/merchants/{id}/pause", "pauseMerchant", operator, 200, handle(s.pauseMerchant), "Stop sending to a merchant; callbacks are still taken", nil},
		{post, "/v1/merchants/{id}/resume", "resumeMerchant", operator, 200, handle(s.resumeMerchant), "Send to a merchant again", nil},
		{post, "/v1/merchants/{id}/keys", "rotateKeys", operator, 200, handle(s.rotateKeys), "Make or set new keys; they hold from the next attempt on", nil},

		{post, "/v1/deposits", "addDeposits", ingest, 202, s.depositsHandler(), "Tell merchants of deposits: one, an array (all or nothing), or lines (in order, up to the first fault)", []int{409}},

		{post, "/v1/withdrawals", "createWithdrawal", ingest, 202, handle(s.createWithdrawal), "Ask a merchant to confirm a withdrawal", []int{409}},
		{get, "/v1/withdrawals", "withdrawals", viewer, 200, handle(s.withdrawals), "List withdrawals, the newest first", nil},
		{get, "/v1/withdrawals/{id}", "withdrawal", viewer, 200, handle(s.withdrawal), "Show one withdrawal", nil},
		{post, "/v1/withdrawals/{id}/cancel", "cancelWithdrawal", ingest, 200, handle(s.cancelWithdrawal), "Withdraw the question while it awaits its answer", []int{409}},
		{post, "/v1/withdrawals/{id}/release", "releaseWithdrawal", ingest, 200, handle(s.releaseWithdrawal), "Take the one permit to execute a confirmed withdrawal", []int{409}},
		{post, "/v1/withdrawals/{id}/outcome", "reportOutcome", ingest, 200, handle(s.reportOutcome), "Say how a released withdrawal ended; the merchant is told", []int{409}},
		{get, "/v1/decisions", "decisions", viewer, 200, handle(s.decisions), "Read the feed of decisions, in order and without gaps", nil},

		{get, "/v1/callbacks", "callbacks", viewer, 200, handle(s.callbacks), "List callbacks, the newest first", nil},
		{get, "/v1/callbacks/{id}", "callback", viewer, 200, handle(s.callback), "Show one callback with its attempts", nil},
		{post, "/v1/callbacks/{id}/resend", "resendCallback", operator, 200, handle(s.resendCallback), "Send a refused or exhausted callback again", []int{409}},
		{post, "/v1/callbacks/resend", "resendCallbacks", operator, 200, handle(s.resendCallbacks), "Send all refused and exhausted callbacks that match again", nil},

		{get, "/v1/alarms", "alarms", viewer, 200, handle(s.alarms), "Read the feed of alarms", nil},
		{get, "/v1/stats", "stats", viewer, 200, handle(s.stats), "Show the queues, withdrawals and breakers", nil},

		{post, "/v1/tokens", "createToken", operator, 201, handle(s.createToken), "Make a token; its secret is shown once", nil},
		{get, "/v1/tokens", "tokens", operator, 200, handle(s.listTokens), "List tokens", nil},
		{remove, "/v1/tokens/{id}", "revokeToken", operator, 204, handle(s.revokeToken), "Revoke a token", []int{409}},

		{get, "/healthz", "healthz", open, 200, handle(s.healthz), "Say that the process runs", nil},
		{get, "/readyz", "readyz", open, 200, handle(s.readyz), "Say whether the service can work", []int{503}},
		{get, "/openapi.json", "openapi", open, 200, handle(s.openapi), "Give this document", nil},
	}
}
