// Package advice says what each kind of alarm of the service means and what helps.
package advice

var texts = map[string]string{
	"answer_differs": "The merchant's answer contradicts what it answers, or what was decided before. Nothing was changed by it. " +
		"Ask the merchant what it meant; if it did not send this answer, somebody is playing with its answers.",
	"answer_unbound": "A confirmation was not taken: the service has no details to compare it with, and its blocks do not show that the details " +
		"belong to this withdrawal, so they may come from another answer. The merchant is asked again. What helps: give details with each " +
		"withdrawal; use a key of 2048 bits or more for answers; or have the merchant order the members of its answer as PROTOCOL.md, Answers, says.",
	"decision_differs": "A later answer would have decided a withdrawal otherwise. The first decision stands. Ask the merchant which one it meant.",
	"audit_broken": "Rows of the audit log are not as they were added, so it is not signed any more. Somebody changed the database past the service, or it was " +
		"damaged or set back. The log of the service says which record; compare the database with a backup and with checkpoints that others hold.",
	"details_differ": "The merchant confirmed other details than were ordered. The withdrawal is declined. Compare both orders; " +
		"if the merchant's is right, somebody has changed the service's.",
	"foreign_claim": "A claim asked for a withdrawal whose permit another claim holds, and did not get it. Two parts of the wallet mean to execute it: " +
		"find out which one does, and whether both have.",
	"frozen": "A person has frozen the service: nothing is sent, decided or released. The subject is the reason. Thaw it when the cause is gone; " +
		"until then deadlines go on, and withdrawals that reach theirs expire.",
	"exhausted": "Callbacks of the merchant were given up: their schedule ended without an answer that settles them. The subject is the reason of the last attempt. " +
		"When the merchant can take them, resend them: callbacks list --state exhausted names them.",
	"breaker_open": "No exchange with the merchant reached it for ten minutes: what it is to be told in this lane waits, and one callback at a time tries. " +
		"The reasons of the last attempts say what fails; ask the merchant.",
	"overdue": "Callbacks of the merchant are due for a quarter of an hour and are not sent, although it can be reached: its rate or concurrency is too low, it answers " +
		"slowly, or the nodes do not keep up.",
	"held_too_long": "The merchant held a callback (errCode 3000 to 3999) until its schedule ended, so it is exhausted and is not sent again. " +
		"Ask the merchant what it waits for, then resend the callback.",
	"lapsed": "A confirmed withdrawal was not released within its merchant's releaseWithin. It is never released any more, and the merchant is told that it has ended. " +
		"Find out why the wallet did not take it; if it is still wanted, the merchant orders a new one.",
	"merchant_changed": "Somebody changed where a merchant's money goes or who decides on it. The subject names the change and what it changed, with fingerprints of " +
		"all of it before and after; changes show tells who proposed and who approved it. If nobody meant it, pause the merchant.",
	"token_changed": "A token that decides on changes was made or revoked. The subject names the change and the token; token list tells whose it is. " +
		"If nobody meant it, revoke it.",
	"not_understood": "The merchant says that it cannot open or read a callback. It is tried again. Check that both ends have the same keys, " +
		"and let the merchant run countersign check.",
	"open_failures": "Too many answers of the merchant within an hour did not open or were no answers, so it was paused. Check its response key; " +
		"if that is right, somebody is trying blocks on the service. Resume the merchant when the cause is known.",
	"restored": "The service's database was restored from a backup. What came after that backup is not known here and may have happened: " +
		"nothing is released until countersign reconcile --settle was told what the wallet executed. docs/backup.md says how.",
	"wrong_api_key": "A response carried another API key than the merchant's. It decided nothing. Check what answers at the merchant's URLs.",
}

// Service says what an alarm of a kind means and what helps; empty where the
// kind is not known.
func Service(kind string) string { return texts[kind] }
