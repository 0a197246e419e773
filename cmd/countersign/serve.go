package main

import "countersign/internal/daemon"

type serveCmd struct {
	Data string `first:"" help:"Directory of the database, master.key and admin.token." default:"./countersign-data" type:"path" placeholder:"DIR"`
	daemon.ServiceConfig
	daemonFlags
}

func (c *serveCmd) Run(std streams) error {
	log := c.logger(std.err)
	used, err := c.complete(&c.Common, std, "serve", c.Data, log)
	if err != nil {
		return err
	}
	s, err := daemon.NewService(c.ServiceConfig)
	if err != nil {
		return explainStart(err)
	}
	return c.run(std, s, log, func() {
		used()
		log.Info("serving", "api", s.URL(), "database", s.Dialect(), "version", daemon.Version, "data", c.Data)
	})
}
