package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/internal/cli"
)

// What people type for the operations of both APIs. The rest of each subcommand (arguments,
// flags, help, the answer) comes from the tables of routes and the types of package client.

// serviceWords are the subcommands of the service's API and of either.
var serviceWords = []cli.Command{
	{Words: "merchants", Help: "The service's merchants, through its API."},
	{Words: "merchants add", Op: "createMerchant", Help: "Make a merchant and its keys; what the merchant needs is printed once.",
		Args: []string{"id"}, Flags: settingFlags, Files: keyFiles, Out: &cli.Output{Prepare: makeHandover, Write: handOver,
			Help: "Directory for what the merchant needs: service.b64, api.key and merchant.json; made if missing. Nothing in it is overwritten. Without it all is printed."}},
	{Words: "merchants list", Op: "merchants", Help: "List merchants.", Lines: 1000, Columns: "ID|NAME|STATE|FAILING SINCE=health.failingSince|WHY=health.lastFailure.reason|SCHEME|NOTIFY URL|PAUSED BECAUSE=pausedReason"},
	{Words: "merchants show", Op: "merchant", Help: "Show one merchant."},
	{Words: "merchants health", Op: "merchantHealth", Help: "Say why a merchant fails, since when, and what it must mend."},
	{Words: "merchants edit", Op: "updateMerchant", Help: "Change settings of a merchant; what is not given stays.", Flags: settingFlags},
	{Words: "merchants pause", Op: "pauseMerchant", Help: "Stop sending to a merchant, deciding and releasing; its callbacks are still taken."},
	{Words: "merchants resume", Op: "resumeMerchant", Help: "End the pause of a merchant."},
	{Words: "merchants keys", Op: "rotateKeys", Help: "Make new keys at one moment. The next attempt uses them; rotate has an overlap.", Flags: settingFlags, Files: keyFiles},
	{Words: "merchants rotate", Help: "Replace keys without a pause: both sets count for a time."},
	{Words: "merchants rotate stage", Op: "stageRotation", Help: "Give a merchant a second set of keys; the present ones still seal, and answers under either count.",
		Flags: settingFlags, Files: keyFiles, Out: &cli.Output{Prepare: makeHandover, Write: handOverStaged,
			Help: "Directory for what the merchant needs: service.b64, response.b64, api.key, callback-api.key; made if missing. Nothing in it is overwritten. Without it all is printed."}},
	{Words: "merchants rotate activate", Op: "activateRotation", Help: "Seal with the newer keys. Answers under the older ones count until the end of the overlap."},
	{Words: "merchants rotate finish", Op: "finishRotation", Help: "End the older keys now."},
	{Words: "merchants rotate cancel", Op: "cancelRotation", Help: "End the newer keys: the older ones seal, alone."},
	{Words: "merchants delete", Op: "deleteMerchant", Help: "Delete a merchant without work for ever: its keys are erased, its history is kept, and its id is not given again.",
		Confirm: "the keys of %s are erased for ever: give --yes"},

	{Words: "callbacks", Help: "The service's callbacks, through its API."},
	{Words: "callbacks list", Op: "callbacks", Help: "List callbacks, the newest first.", Columns: "ID|CREATED|MERCHANT|TYPE|STATE|ATTEMPTS=attempt|TRACKING ID|LAST REASON"},
	{Words: "callbacks show", Op: "callback", Help: "Show one callback with its attempts.", ID: callbackText, Find: findCallback},
	{Words: "callbacks resend", Op: "resendCallback", All: "resendCallbacks", Help: "Send refused or exhausted callbacks again, and pending ones now: one by its id, or all that match.",
		ID: "One callback: its id, trackingId or callBackId; without it the flags select.", Find: findCallback, Flags: map[string]string{"filter-": ""}},

	{Words: "withdrawals", Help: "The service's withdrawals, through its API."},
	{Words: "withdrawals add", Op: "createWithdrawal", Help: "Ask merchants to confirm withdrawals, given as a JSON object or an array of them.", Body: cli.File},
	{Words: "withdrawals list", Op: "withdrawals", Help: "List withdrawals, the newest first.",
		Columns: "ID|CREATED|STATE|MERCHANT|CALLBACK ID=callBackId|USER=tenantUserId|AMOUNT=details.amount,ordered.amount|SYMBOL=details.symbol,ordered.symbol|REASON"},
	{Words: "withdrawals show", Op: "withdrawal", Help: "Show one withdrawal.", ID: withdrawalText, Find: showWithdrawal},
	{Words: "withdrawals cancel", Op: "cancelWithdrawal", Help: "Withdraw the question while it awaits its answer.", ID: withdrawalText, Find: actWithdrawal},
	{Words: "withdrawals release", Op: "releaseWithdrawal", ID: withdrawalText, Find: actWithdrawal, Warn: func(e cli.Entry) string {
		if e.Text("duplicate") == "true" {
			return givenBefore
		}
		return ""
	}, Out: &cli.Output{Prepare: makePermitDir, Write: savePermit,
		Help: "Directory for note.txt, answer.json if the merchant signs, which permit verify checks, and permit.json, all of it; made if missing. Nothing in it is overwritten. Without it all is printed."}},
	{Words: "withdrawals block", Op: "blockWithdrawal", ID: withdrawalText, Find: actWithdrawal},
	{Words: "withdrawals waiting", Op: "reportWaiting", Help: "Say that a released withdrawal waits; each call tells the merchant once more.", ID: withdrawalText, Find: actWithdrawal},
	{Words: "withdrawals outcome", Op: "reportOutcome", Help: "Say how a released withdrawal ended.", ID: withdrawalText, Find: actWithdrawal, Body: cli.File},

	{Words: "search", Op: "search", End: cli.EitherEnd, Args: []string{"q"}, Columns: "KIND|ID|MERCHANT|MATCHED|STATE|AT",
		Help: "Find what has a text as an identifier, user, address, transaction, number or amount, at the service; with --gateway, at the gateway."},

	{Words: "freeze", Op: "freeze", Help: "Stop sending, deciding and releasing for all merchants of the service; with --status, say whether it is frozen.",
		Args: []string{"reason"}, Switches: []cli.Switch{{Name: "status", Op: "frozen", Help: "Only say whether the service is frozen, since when, by whom and why."}}},
	{Words: "thaw", Op: "thaw", Help: "End the freeze of the service."},

	{Words: "alarms", Help: "Alarms of the service; with --gateway, of the gateway."},
	{Words: "alarms list", Op: "alarms", End: cli.EitherEnd, Help: "List alarms, the newest first.",
		Columns: "SEQ|LAST|MERCHANT|KIND|TIMES=number|ABOUT=subject|ACKNOWLEDGED=acked|BY=ackedName|ENDED|WHAT HELPS=text",
		Switches: []cli.Switch{{Name: "open", Flag: "state", Value: "open", Help: "Only those that nobody has acknowledged and that have not ended."},
			{Name: "done", Flag: "state", Value: "acked", Help: "Only those that somebody has acknowledged."}}},
	{Words: "alarms ack", Op: "ackAlarm", End: cli.EitherEnd, Help: "Acknowledge an alarm, so that list --open leaves it out.", ID: "Its number in the list."},

	{Words: "alarms test", Op: "testAlarm", End: cli.EitherEnd, Help: "Post a message that is a test to --alarm-url, and show how that ended."},
	{Words: "alarms ack-all", Op: "ackAlarms", End: cli.EitherEnd, Help: "Acknowledge all open alarms of a kind or about a merchant; with --dry-run only count them.", Flags: map[string]string{"filter-": ""}},

	{Words: "audit", Help: "The audit log of the service; with --gateway, of the gateway: read it, export it, prove a record, verify."},
	{Words: "audit key", Op: "auditCheckpoint", End: cli.EitherEnd, Only: "key", Flags: map[string]string{"from": "-"}, Help: "Print the key that verifies the log. Give it to whom may have to check it, before there is a dispute."},
	{Words: "audit export", By: &auditExportCmd{}, Help: "Write the log, or a part of it, as lines of JSON that audit verify checks."},
	{Words: "audit checkpoint", By: &auditCheckpointCmd{}, Help: "Write a signed checkpoint: who holds it notices when anything before it is changed."},
	{Words: "audit about", By: &auditAboutCmd{}, Help: "Show the newest records about a withdrawal, an order, a merchant or a token, the oldest of them first."},
	{Words: "audit prove", By: &auditProveCmd{}, Help: "Write one record, by its number, with the proof that it is in the log."},
	{Words: "audit verify", By: &auditVerifyCmd{}, Help: "Check an export, a proof or a checkpoint with nothing but the key, or ask the end itself; --since says whether the log continues an earlier checkpoint."},

	{Words: "tasks", Help: "What waits for persons, at the service; with --gateway, at the gateway."},
	{Words: "tasks list", Op: "tasks", End: cli.EitherEnd, Help: "List what waits for persons, the newest first; --awaits=me: only what you may approve.",
		Columns: "ID|OPENED|STATE|MERCHANT|WHAT=title|WHY|MISSING|NOBODY CAN=nobody"},
	{Words: "tasks show", Op: "task", End: cli.EitherEnd, Find: findTask, ID: taskText, Help: "Show one task: what would happen, who has said what, and who can say the rest."},
	{Words: "tasks approve", Op: "approveTask", All: "approveTasks", End: cli.EitherEnd, Find: findTask, ID: taskText + " Without it --ids names many.", Help: "Approve a task, or many by --ids, first with --dry-run."},
	{Words: "tasks decline", Op: "declineTask", All: "declineTasks", End: cli.EitherEnd, Find: findTask, ID: taskText + " Without it --ids names many.", Help: "Decline a task, or many by --ids, first with --dry-run."},
	{Words: "tasks note", Op: "noteTask", End: cli.EitherEnd, Find: findTask, ID: taskText, Args: []string{"text"}, Help: "Note something about what a task is about, for colleagues."},

	{Words: "changes", Help: "Changes that wait for an approver, at the service; with --gateway, at the gateway."},
	{Words: "changes list", Op: "changes", End: cli.EitherEnd, Columns: "ID|STATE|ABOUT|CHANGES|PROPOSED BY|PROPOSED|DECIDED BY|TAKES EFFECT",
		Cells: map[string]func(cli.Entry) string{"CHANGES": changeText, "ABOUT": func(e cli.Entry) string { return e.Text("kind") + " " + e.Text("merchant") + e.Text("token") }}},
	{Words: "changes show", Op: "change", End: cli.EitherEnd},

	{Words: "nodes", Op: "nodes", End: cli.EitherEnd, Help: "The processes of the service, silent ones too; with --gateway, of the gateway.", Columns: "NAME|STATE|STARTED|SEEN|VERSION",
		Cells: map[string]func(cli.Entry) string{"STATE": func(e cli.Entry) string {
			if e.Text("silent") == "true" {
				return "silent"
			}
			return "running"
		}}},

	{Words: "token", Help: "API tokens of the service; with --gateway, of the gateway."},
	{Words: "token new", Op: "createToken", End: cli.EitherEnd, Help: "Make a token. Its secret is shown once, or written to a file.",
		Args: []string{"name"}, Flags: map[string]string{"merchants": "merchant"}, Out: &cli.Output{Prepare: isNew, Write: keepToken,
			Help: "Write the secret to this new file, for its owner alone, and do not print it."}},
	{Words: "token list", Op: "tokens", End: cli.EitherEnd, Help: "List tokens, revoked ones too.", Array: true, Columns: "ID|NAME|ROLE|MERCHANTS|AN HOUR=depositsPerHour|CREATED|EXPIRES|REVOKED|MADE BY"},
	{Words: "token revoke", Op: "revokeToken", End: cli.EitherEnd, Help: "Revoke a token.", ID: "The token's id, not its secret.", Done: "revoked %s"},

	{Words: "api", Help: "Every operation of the service's API; with --gateway, of the gateway's."},
	{Words: "api list", By: &apiListCmd{}, Tags: []string{"default", "withargs"},
		Help: "List the operations of an API. api OPERATION calls one: api OPERATION --help says how."},
}

// settingFlags and keyFiles are the flags of a merchant's settings that have shorter names, and
// those that name files with keys.
var (
	settingFlags = map[string]string{"key-": "", "response-key-private-key": "response-private-key", "response-key-public-key": "-", "rate-per-second": "rate",
		"make-api-key": "new-api-key", "make-callback-api-key": "new-callback-api-key"}
	keyFiles = []string{"private-key", "public-key", "response-private-key"}
)

// atService gives a command among gatewayWords the settings of the service's API.
var atService = []string{"set", "end=" + serviceEnd["end"], "set", "END=" + serviceEnd["END"], "set", "api=" + serviceEnd["api"], "set", "data=" + serviceEnd["data"]}

// gatewayWords are the subcommands of the gateway's API, and those beside them.
var gatewayWords = []cli.Command{
	{Words: "orders", Help: "The merchant's orders, through the gateway's API."},
	{Words: "orders add", Op: "addOrder", End: cli.GatewayEnd, Help: "Order a withdrawal, given as a JSON object.", Body: cli.File},
	{Words: "orders list", Op: "orders", End: cli.GatewayEnd, Columns: "CALLBACK ID=callBackId|CREATED|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|ADDRESS|REASON"},
	{Words: "orders show", Op: "order", End: cli.GatewayEnd, ID: orderText, Find: showOrder},
	{Words: "orders cancel", Op: "cancelOrder", End: cli.GatewayEnd, Help: "Take an order back that is not confirmed yet."},

	{Words: "deposits", Help: "The merchant's deposits, through the gateway's API."},
	{Words: "deposits list", Op: "deposits", End: cli.GatewayEnd, Help: "List deposits, the oldest first.", Columns: depositColumns},
	{Words: "deposits search", Op: "searchDeposits", End: cli.GatewayEnd, Help: "Find deposits as they are now, the newest first.", Columns: depositColumns},
	{Words: "deposits show", Op: "deposit", End: cli.GatewayEnd, ID: depositText, Find: showDeposit},
	{Words: "addresses", Help: "Changes of the users' deposit addresses, through the API of either end."},
	{Words: "addresses add", Op: "addAddress", Help: "Tell a merchant that the deposit address of a user was replaced, given as a JSON object.", Body: cli.File, Tags: atService},
	{Words: "addresses list", Op: "addresses", End: cli.GatewayEnd, Columns: "SEQ|TAKEN|STATE|USER=tenantUserId|CHAIN=chainName|ADDRESS|OLD=oldAddress|BY=decidedBy|REASON"},
	{Words: "addresses show", Op: "address", End: cli.GatewayEnd, ID: addressText, Find: showAddress},
	{Words: "refused", Help: "Callbacks that the gateway refused although they opened or came with the right API key."},
	{Words: "refused list", Op: "refused", End: cli.GatewayEnd, Help: "List refused callbacks, the newest first.",
		Columns: "ID|LAST|STATE|REASON|TIMES=number|TYPE|CALLBACK ID|WHAT", Cells: map[string]func(cli.Entry) string{"WHAT": factsText}},
	{Words: "refused show", Op: "refusedCallback", End: cli.GatewayEnd, Help: "Show a refused callback with what was wrong and, to who may retry it, its body and an explanation.", ID: refusedText, Find: showRefused},
	{Words: "provider", Help: "What the provider does, as seen by a gateway that ran with --learn."},
	{Words: "provider show", Op: "learned", End: cli.GatewayEnd, Help: "Print the settings that fit the provider, for gateway --config, and what would be refused with them.", Only: "settings"},
	{Words: "provider note", Op: "learned", End: cli.GatewayEnd, Help: "Print what to send to the provider: what no setting mends.", Only: "note"},
	{Words: "events", Op: "events", End: cli.GatewayEnd, Help: "What happened to orders, addresses and held deposits, through the gateway's API.",
		Columns: "SEQ|AT|KIND|ABOUT=deposit,callBackId|USER=tenantUserId|BY=decidedBy|REASON"},

	{Words: "forward", Help: "What is forwarded to the application, through the gateway's API."},
	{Words: "forward status", Op: "forwarding", End: cli.GatewayEnd, Help: "Say how far the feeds were forwarded, what waits, and what failed."},
	{Words: "forward list", Op: "forwards", End: cli.GatewayEnd, Help: "List the entries that were sent in vain, or with --skipped those that were given up.",
		Switches: []cli.Switch{{Name: "skipped", Flag: "state", Value: "skipped", Help: "Those that a person gave up."}},
		Columns:  "ID|CREATED|ATTEMPTS|LAST ERROR|DUE|GIVEN UP=skipped|BY=skippedBy|REASON"},
	{Words: "forward retry", Op: "retryForward", All: "retryForwards", End: cli.GatewayEnd, Help: "Send an entry again now, or all that were sent in vain.",
		ID: entryText + "; without it all that were sent in vain.", Find: findEntry},
	{Words: "forward skip", Op: "skipForward", End: cli.GatewayEnd, Help: "Give up an entry that the application cannot take.", ID: entryText + ".", Find: findEntry},
}

const (
	withdrawalText = "Its id, MERCHANT/CALLBACKID, or its callBackId where one merchant has it."
	callbackText   = "Its id, trackingId or callBackId."
	orderText      = "Its callBackId, or the trackingId of a callback about it."
	addressText    = "Its number in the list of addresses, or its user where that has one."
	refusedText    = "Its id in the list of refused callbacks, or its trackingId or callBackId."
	depositText    = "Its number in the feed of deposits, or its trackingId."
	entryText      = "The entry, such as deposit_17, or the trackingId of a deposit"
	taskText       = "Its id, such as deposit.17."
	depositColumns = "SEQ|TAKEN|STATE|USER=tenantUserId|AMOUNT|SYMBOL|CHAIN=chainName|TRANSACTION=txId|TRACKING ID"
)

// factsText tells what was wrong with a refused callback.
func factsText(e cli.Entry) string {
	list, _ := e["facts"].([]any)
	var parts []string
	for _, f := range list {
		if fact, ok := f.(map[string]any); ok {
			parts = append(parts, strings.TrimSpace(cli.Entry(fact).Text("member")+" "+cli.Entry(fact).Text("cause")))
		}
	}
	return strings.Join(parts, "; ")
}

// changeText tells each member before and after.
func changeText(e cli.Entry) string {
	before, _ := e["before"].(map[string]any)
	after, _ := e["after"].(map[string]any)
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(after)) {
		parts = append(parts, fmt.Sprintf("%s: %s → %s", m, cli.Cell(cli.Entry(before).Text(m)), cli.Cell(cli.Entry(after).Text(m))))
	}
	return strings.Join(parts, "; ")
}
