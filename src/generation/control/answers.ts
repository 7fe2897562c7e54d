import type { Fault } from '../../model/faults.js';
import { preview } from '../../model/problems.js';
import { orAborted } from '../../platform/waits/abort.js';
import type { LogprobsMode } from '../../model/logprobs-mode.js';
import type { GenerationService } from '../generation-service.js';
import { probeLogprobsMode } from '../logprobs-probe.js';
import type { Bound } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { routeMissing } from '../wire/ask.js';
import { protocolFault, refusalFault, refusalOf, rejected } from '../wire/wire-faults.js';

/**
 * Whether it has a route that accepts only POST: a GET gives 405 if the route exists, and 404 if not (capture 177). Never
 * ask so for a route that accepts both.
 */
export async function hasRoute(
  { raw, replica }: Pick<Ask, 'raw' | 'replica'>,
  { path, ...bound }: Bound & { path: string },
): Promise<boolean> {
  const call = `GET ${path}`;
  const reply = await raw(call, bound);
  const isRefused = reply.status === 401 || reply.status === 403 || reply.status >= 500;
  if (isRefused) throw refusalFault(refusalOf(reply), { replica, call });
  return reply.status !== 404 && routeMissing(reply) === null;
}

/** Throws if the engine says another label than it was just given. */
export function checkSet(
  wanted: string,
  { got, replica, call }: { got: string | null; replica: string; call: string },
): void {
  if (got === wanted) return;
  const said = got === null ? 'none' : preview(got);
  throw protocolFault(`weight_version: expected ${preview(wanted)}, got ${said}`, {
    replica,
    call,
  });
}

/** An update while an engine is asleep breaks it. `by`: the routes that put it to sleep, and wake it. */
export const asleep = (replica: string, [sleep, wake]: readonly [string, string]): Fault =>
  rejected(
    replica,
    `it is asleep (POST ${sleep}), and its weights cannot be changed before it is awake: POST ${wake}`,
  );

type Timeouts = Record<'first_token_timeout_ms' | 'idle_timeout_ms', number>;

/** By a service of its own, which is closed again. */
export async function probed(
  model: string,
  {
    open,
    within_ms,
    signal,
  }: Bound & { open: (timeouts: Timeouts) => Pick<GenerationService, 'generate' | 'close'> },
): Promise<LogprobsMode> {
  const service = open({ first_token_timeout_ms: within_ms, idle_timeout_ms: within_ms });
  try {
    return await orAborted(probeLogprobsMode(service, model), signal);
  } finally {
    await service.close();
  }
}
