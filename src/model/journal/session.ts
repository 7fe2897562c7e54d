import type { ForeignObject } from '../foreign-object.js';
import { withoutField } from '../foreign-object.js';
import type { LineOf } from '../journal.js';

/**
 * An environment may hold a session for each rollout, from before the prompt is rendered until the end. If the
 * environment loses it, the rollout's turns are lost, too: the rollout starts over, in its next life.
 */
export interface Session {
  /** Requested or opened, but no prompt is rendered with it yet. */
  begun: LineOf<'begin'> | null;
  /** Under which deployment's name it was begun, and has to be ended. */
  deployment: string | undefined;
  /** The environment opened a session for this life, so there is something to end. */
  is_open: boolean;
  /** When its end was first requested, in seconds as in journal lines; null: not yet. */
  closing_at: number | null;
  /** Why there is no session to continue with; null: there is one, or the environment has none. */
  gone: string | null;
  /** How often the environment lost it since the rollout was last reopened. */
  losses: number;
  /** 1 for a rollout that never lost a session. */
  lives: number;
  /** The turn in progress was sent; null: it was not, or the environment says that it did not play it. */
  asked: LineOf<'step'> | null;
}

/** Limit per rollout. A service that loses every session needs an operator. */
export const MAX_LOSSES = 3;

/** Where metadata identifies the session. Rows and the environment's service do not see it. */
export const SESSION_KEY = '_rollout_session';

export const withoutSession = (metadata: ForeignObject): ForeignObject =>
  withoutField(metadata, SESSION_KEY);

export const noSession = (): Session => ({
  begun: null,
  deployment: undefined,
  is_open: false,
  closing_at: null,
  gone: null,
  losses: 0,
  lives: 0,
  asked: null,
});

/** Folds in a line that is no start and no observation; `turn` is the one in progress. */
export function applyToSession(
  session: Session,
  { line, turn }: { line: LineOf<'begin' | 'step' | 'close' | 'fault'>; turn: number },
): void {
  switch (line.kind) {
    case 'begin':
      session.begun = line;
      session.deployment = line.deployment;
      session.is_open = line.session !== 'none';
      session.closing_at = null;
      break;
    case 'step':
      if (line.turn === turn) session.asked = line;
      break;
    case 'close':
      if (line.session === 'none') reopenSession(session);
      else {
        session.gone ??= CLOSED;
        session.closing_at ??= line.at;
      }
      break;
    case 'fault':
      // Environments whose steps must not be repeated report this only if the turn was not played.
      if (line.type === 'EnvironmentUnavailable' && session.asked?.answer === null)
        session.asked = null;
      if (line.type === 'EnvironmentStateLost' && session.gone === null) {
        session.gone = line.message;
        session.losses += 1;
      }
      break;
  }
}

const CLOSED = 'it was closed';

/** There was nothing to end, so it continues. */
function reopenSession(session: Session): void {
  session.closing_at = null;
  if (session.gone === CLOSED) session.gone = null;
}

/** Applies a `start` that counts, with the session that was opened for it, if any. */
export function startLife(session: Session): void {
  if (session.begun === null) session.is_open = false;
  session.begun = null;
  session.closing_at = null;
  session.gone = null;
  session.asked = null;
  session.lives += 1;
}
