package conformance

import "slices"

// Cases returns all cases by number.
func Cases() []Case {
	return slices.Concat(depositCases(), repeatCases(), noticeCases(), withdrawalCases(), responseCases(), httpCases(),
		sealingCases(), messageCases(), bindingCases(), otherCases(), restartCases(), linkCases())
}
