import type { LineOf } from './journal.js';

/**
 * An environment may hold a session for each rollout: opened before the prompt is rendered, ended with the rollout. One
 * that the environment loses takes the rollout's turns with it: the rollout starts over, in its next life.
 */
export interface Session {
  /** Asked for, or opened, and no prompt rendered with it yet. */
  begun: LineOf<'begin'> | null;
  /** What this life began with was opened by the environment: there is something to end. */
  is_open: boolean;
  /** When it was first to be ended, in seconds as lines have them; null: it was not. */
  closing_at: number | null;
  /** Why there is no session to go on with; null: there is one, or the environment has none. */
  gone: string | null;
  /** How often the environment lost it, since the rollout was last reopened. */
  losses: number;
  /** 1 for a rollout whose session was never lost. */
  lives: number;
  /** The turn in progress was sent to the environment; null: it was not, or the environment has said that it did not play it. */
  asked: LineOf<'step'> | null;
}

/** Of one rollout, in all: a service that loses every session is an operator's case. */
export const MAX_LOSSES = 3;

/** Under this key of its metadata an environment keeps what names its session. Neither rows nor the environment's service see it. */
export const SESSION_KEY = '_rollout_session';

export function withoutSession(metadata: Record<string, unknown>): Record<string, unknown> {
  if (!(SESSION_KEY in metadata)) return metadata;
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => key !== SESSION_KEY));
}

export const noSession = (): Session => ({
  begun: null,
  is_open: false,
  closing_at: null,
  gone: null,
  losses: 0,
  lives: 0,
  asked: null,
});

/** Folds in what is no start and no observation; `turn` is the one in progress. */
export function applyToSession(
  session: Session,
  { line, turn }: { line: LineOf<'begin' | 'step' | 'close' | 'fault'>; turn: number },
): void {
  switch (line.kind) {
    case 'begin':
      session.begun = line;
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
      // Environments whose steps must not be sent twice say this only where the turn was not played.
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

/** There was nothing to end: it goes on. */
function reopenSession(session: Session): void {
  session.closing_at = null;
  if (session.gone === CLOSED) session.gone = null;
}

/** A `start` that counts: with the session that was opened for it, where there is one. */
export function startLife(session: Session): void {
  if (session.begun === null) session.is_open = false;
  session.begun = null;
  session.closing_at = null;
  session.gone = null;
  session.asked = null;
  session.lives += 1;
}
