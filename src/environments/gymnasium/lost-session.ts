import { Fault } from '../../model/faults.js';
import { isRecord, jsonIn } from '../../platform/json/object.js';
import { neverSent, refusalIn, type RefusalFacts } from '../http/call.js';
import type { StepAnswer } from './wire.js';

/**
 * When a session counts as lost. Gym's servers hold sessions in memory, accept any cookie that they once signed, and
 * differ in their answers for an unknown session:
 *
 * | answer to `/step` | server | fault |
 * |---|---|---|
 * | 410; any 4xx, or 500, that says so: `Session not initialized. Call /reset first.` | tales, grl_sokoban | `EnvironmentStateLost` |
 * | 500 `KeyError('<uuid>')`: session ids are UUIDs | `self.session_state[session_id]` | `EnvironmentStateLost` |
 * | 200 with `info.error` `no_active_episode` | openair_congestion | `EnvironmentStateLost` |
 * | 200 with the cookie of another session id | a server with another signing key | `EnvironmentStateLost` |
 * | other 4xx | | `EnvironmentRejected` |
 * | 429, 503 | overloaded: the step was not played | `EnvironmentUnavailable` |
 * | 500 of a server that says `supports_step_idempotency` | it raised an exception | `EnvironmentFailed` |
 *
 * Everything else (other 5xx, no answer, a broken connection, no listener) is retried with the same
 * `_ng_step_request_id` if the server says `supports_step_idempotency`. If it does not, the step may have been played,
 * or its session may be gone with its process. That is `EnvironmentStateLost` too, except for a connection that was
 * never made to a host that may be up. Some servers (blackjack, example_multi_turn_gymnasium) answer an unknown session
 * like one of their own, so a restart goes unnoticed.
 */

const KEY_ERROR = /^KeyError\('[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'\)$/;
const NO_SESSION = /^(?:no|unknown|expired|invalid|missing)(?: active)? (?:session|episode)\b/i;
const SESSION_NOT =
  /^(?:the )?(?:session|episode)\b.{0,80}?\b(?:not (?:initiali[sz]ed|found|active|open|known)|unknown|expired|closed|does not exist)\b/i;

export function saysLost({ status, text }: RefusalFacts): boolean {
  if (status === 410) return true;
  if (status !== 500 && (status < 400 || status > 499)) return false;
  const said = serverText(text);
  return KEY_ERROR.test(said) || NO_SESSION.test(said) || SESSION_NOT.test(said);
}

export const saysNoEpisode = ({ info }: Pick<StepAnswer, 'info'>): boolean =>
  info?.['error'] === 'no_active_episode';

/** A framework's `detail`, Gym's `repr(e)` as a JSON string, or the text itself. It may quote the policy further on. */
function serverText(text: string): string {
  const value = jsonIn(text);
  const said = isRecord(value) ? value['detail'] : value;
  return typeof said === 'string' ? said : text.trim();
}

export function stepFault(error: unknown, { step_idempotency }: { step_idempotency: boolean }) {
  if (!(error instanceof Fault)) return error;
  const refusal = refusalIn(error);
  if (refusal !== null && saysLost(refusal)) return lost(error, 'its session is lost');
  if (step_idempotency || error.type === 'EnvironmentRejected') return error;
  if (refusal?.status === 503 || refusal?.status === 429) return error;
  const code = neverSent(error);
  // The host itself refuses: the process with the session is gone.
  if (code !== null && code !== 'ECONNREFUSED') return error;
  return lost(
    error,
    'the session may have taken this step, since the server does not report supports_step_idempotency',
  );
}

const lost = (error: Fault, why: string): Fault =>
  new Fault({
    type: 'EnvironmentStateLost',
    message: `${error.message}: ${why}`,
    cause: error,
    ...(error.at !== null && { at: error.at }),
  });
