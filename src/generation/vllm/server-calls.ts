import { z } from 'zod';
import { preview } from '../../model/problems.js';
import { orAborted } from '../../platform/waits/abort.js';
import { shared } from '../../platform/waits/shared.js';
import type { GenerationService, ServiceDescription } from '../generation-service.js';
import type { Bound } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { jsonOf, patience, quietly, routeMissing, soon } from '../wire/ask.js';
import { unlessRefused, withLimits } from '../wire/models.js';
import type { Tokenizer } from '../wire/tokenizer.js';
import { createTokenizer } from '../wire/tokenizer.js';
import { protocolFault, refusalFault, refusalOf, unavailableFault } from '../wire/wire-faults.js';
import * as vllm from './questions.js';

const Version = z.object({ version: z.string().max(200) });

interface Server extends Ask, Pick<Tokenizer, 'call_timeout_ms' | 'role_map'> {
  /** Milliseconds of a monotonic clock. */
  now: () => number;
}

export function createServerCalls(server: Server) {
  const bound = (signal: AbortSignal): Bound => ({ within_ms: server.call_timeout_ms, signal });
  const weights = createWeightVersion(server);
  const quiet = quietly(server);
  return {
    describe: async (signal: AbortSignal): Promise<ServiceDescription> => {
      const description = await describe(server, signal);
      weights.forget();
      return description;
    },
    context: (model: string, signal: AbortSignal) =>
      unlessRefused(async () => {
        const models = withLimits(await vllm.servedModels(server, soon(signal)));
        const tokens = models.find(({ id }) => id === model)?.max_model_len ?? null;
        return tokens === null ? null : { tokens };
      }),
    ...createTokenizer({ ...server, decoding: { text: 'prompt' } }),
    promptLogprobs: (prompt: vllm.Prompt, signal: AbortSignal) =>
      vllm.promptLogprobs(server, { ...prompt, ...bound(signal) }),
    weightVersion: weights.weightVersion,
    isPaused: shared(async () => {
      const said = jsonOf(await quiet.raw('GET /is_paused', patience()));
      const isPaused = vllm.WhetherPaused.safeParse(said).data?.is_paused === true;
      return isPaused || (await vllm.saysAsleep(quiet, patience()));
    }),
    isAsleep: shared(() => vllm.isAsleep({ control: quiet, engine: quiet }, patience())),
  };
}

async function describe(server: Server, signal: AbortSignal): Promise<ServiceDescription> {
  const call = 'GET /health';
  const health = await server.raw(call, soon(signal));
  const { status } = health;
  const site = { replica: server.replica, call };
  if (status !== 200) throw unavailableFault(`expected 200, got ${status}`, { ...site, status });
  const missing = routeMissing(health);
  if (missing !== null)
    throw protocolFault(`expected no error, got status 200 and ${preview(missing)}`, site);
  const models = withLimits(await vllm.servedModels(server, soon(signal)));
  const version = Version.safeParse(jsonOf(await server.raw('GET /version', soon(signal))));
  return { models, version: version.data?.version ?? null };
}

/**
 * How long until a server that does not report its weights is asked again. It is also asked when it is described,
 * because it may be another server.
 */
const SAYS_NOTHING_MS = 30_000;

/**
 * Whether this status means that the route does not exist, or that a gateway does not allow it. An overloaded or
 * failing server does not mean that.
 */
const saysNothing = (status: number): boolean =>
  status === 501 || (status >= 400 && status < 500 && status !== 408 && status !== 429);

/** Asks for the weights; remembered answers can be forgotten. */
function createWeightVersion({ raw, replica, now }: Server) {
  const call = 'GET /weight_info';
  let silent_until = -Infinity;
  const ask = shared(() => raw(call, soon(new AbortController().signal)));
  const weightVersion: GenerationService['weightVersion'] = async (signal) => {
    if (now() < silent_until) return null;
    const reply = await orAborted(ask(), signal);
    if (reply.status !== 200 && !saysNothing(reply.status))
      throw refusalFault(refusalOf(reply), { replica, call });
    const label = vllm.labelIn(reply);
    if (label === null) silent_until = now() + SAYS_NOTHING_MS;
    return label;
  };
  const forget = (): void => {
    silent_until = -Infinity;
  };
  return { weightVersion, forget };
}
