package store

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// keeper has its connections keep the statements that they have prepared: SQLite takes
// longer to parse most of the journal's than to run them. It parses some anew each time that
// their arguments are set: those whose plan could be another one for column = ? if that is 0
// or 1. What runs often says column = +?, of which SQLite makes one plan for all.
type keeper struct{ driver.Connector }

// maxKept bounds what one connection keeps. The journal has fewer statements.
const maxKept = 256

func (k keeper) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := c.(sqliteConn)
	if !ok {
		return nil, fmt.Errorf("a connection of type %T cannot keep statements", c)
	}
	return &keptConn{inner, map[string]sqliteStmt{}}, nil
}

// sqliteConn is what database/sql uses of a connection. It is no driver.QueryerContext:
// database/sql then prepares what it queries. What is executed outright, scripts of
// several statements among it, is not kept.
type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.SessionResetter
	driver.Validator
}

type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keptConn is used by one goroutine at a time: database/sql sees to that.
type keptConn struct {
	sqliteConn
	idle map[string]sqliteStmt // by text; one that is in use is not there
}

func (c *keptConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if s, ok := c.idle[text]; ok {
		delete(c.idle, text)
		return &keptStmt{s, c, text}, nil
	}
	st, err := c.sqliteConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s, ok := st.(sqliteStmt)
	if !ok {
		return st, nil
	}
	return &keptStmt{s, c, text}, nil
}

func (c *keptConn) Close() error {
	for _, s := range c.idle {
		s.Close() // the connection's end is the statement's, whatever this says
	}
	clear(c.idle)
	return c.sqliteConn.Close()
}

// keptStmt is a statement in use. The driver has reset it, and forgotten its arguments,
// when it has run or its rows are closed, also after an error.
type keptStmt struct {
	sqliteStmt
	c    *keptConn
	text string
}

func (s *keptStmt) Close() error {
	if _, twice := s.c.idle[s.text]; twice || len(s.c.idle) >= maxKept {
		return s.sqliteStmt.Close()
	}
	s.c.idle[s.text] = s.sqliteStmt
	return nil
}
