import { isShared } from '../../activities/policy/ask.js';
import type { ServiceDescription } from '../../generation/generation-service.js';
import { probeLogprobsMode, probeRequest } from '../../generation/logprobs-probe.js';
import { refusedKey } from '../../model/refused-key.js';
import { Fault } from '../../model/faults.js';
import { TO_HAVE_PROCESSED } from '../../model/logprobs-mode.js';
import { preview, previews } from '../../model/problems.js';
import { httpFailureIn, isOfTls } from '../../platform/http/failure.js';
import { describeError } from '../../platform/errors.js';
import { orAborted } from '../../platform/waits/abort.js';
import type { Finding, Found } from './finding.js';
import { broken, findingsOf, limited, ok } from './finding.js';
import type { EngineToCheck } from './engine-abilities.js';
import { abilitiesOf, versionOf } from './engine-abilities.js';
import { z } from 'zod';
import { jsonOf } from '../../generation/wire/ask.js';
import { serverRoot } from '../../generation/wire/http.js';
import type { Answer } from '../../platform/http/client.js';
import { createHttpClient } from '../../platform/http/client.js';

const IS_SLOW = 'it is slow, busy, or still starting: see its own log. Workers wait for it';
const NEEDS_TOKENS =
  'use vLLM or SGLang (docs/engines.md). Rollouts need an engine that takes token ids as its prompt, and returns ids with logprobs; other servers of the OpenAI API do not';

/** Checks one replica: whether it is available, has the model, returns what a row needs, and can change its weights. */
export const checkEngine = async (engine: EngineToCheck): Promise<Finding[]> =>
  findingsOf(`generation.${engine.name} ${engine.service.replica}`, await foundOf(engine));

async function foundOf(engine: EngineToCheck): Promise<Found[]> {
  const { name, settings, service, control, within_ms } = engine;
  let described: ServiceDescription;
  try {
    described = await service.describe(AbortSignal.timeout(within_ms));
  } catch (error) {
    return [broken(saidOf(error, engine), await remedyOf(error, engine))];
  }
  const { models, version } = described;
  const ids = models.map(({ id }) => id);
  const model = models.find(({ id }) => id === (settings.model ?? ids[0]));
  if (model === undefined) {
    const expected = settings.model === null ? 'a model' : preview(settings.model);
    const what = `expected ${expected} (generation.${name}.model), it serves ${previews(ids) || 'none'}`;
    return [broken(what, `name a model that it serves in generation.${name}.model`)];
  }
  const length = model.max_model_len === null ? '' : `, max_model_len ${model.max_model_len}`;
  const found = [
    ok(`${versionOf(version, control.remedies)}, model ${preview(model.id)}${length}`),
  ];
  if (await service.isAsleep()) {
    // Some versions break when they are asked to generate.
    const what = 'asleep: it generates nothing, and its weights cannot be changed';
    const remedy = 'somebody has put it to sleep (POST /sleep); POST /wake_up ends that';
    return [...found, limited(what, remedy)];
  }
  return [
    ...found,
    ...(await askToGenerate(engine, model.id)),
    await checkControl(engine, version),
    ...(await abilitiesOf(engine, model.id).catch(noneOf)),
    ...(await checkIsOne(engine)),
  ];
}

function noneOf(error: unknown): Found[] {
  if (error instanceof Fault || isOfLimit(error)) return [];
  throw error;
}

async function askToGenerate(engine: EngineToCheck, model: string): Promise<Found[]> {
  const { service, within_ms } = engine;
  const signal = AbortSignal.timeout(within_ms);
  if (await service.isPaused()) {
    const remedy = 'somebody has paused it (POST /pause); /resume ends that';
    return [limited('paused: generations wait', remedy)];
  }
  try {
    await service.generate(probeRequest({ model, temperature: 1 }), {
      signal,
      onDelta: () => undefined,
    });
    await service.tokenize({ model, text: 'one two', add_special_tokens: false }, signal);
    await service.detokenize({ model, token_ids: [0, 1] }, signal);
  } catch (error) {
    const remedy = isSlow(error) ? IS_SLOW : await needsOf(error, engine);
    return [broken(saidOf(error, engine), remedy)];
  }
  const tokens = ok('token ids, a logprob each, tokenizer');
  const mode = await orAborted(probeLogprobsMode(service, model), signal);
  if (mode === 'processed') return [tokens, ok('logprobs: processed')];
  const remedy = `${TO_HAVE_PROCESSED}, or ask for generation.logprobs_mode "raw", or sample at temperature 1 without other changes`;
  return [tokens, limited(`logprobs: ${mode}`, remedy)];
}

async function needsOf(error: unknown, engine: EngineToCheck): Promise<string> {
  const name = await otherServer(engine);
  if (name !== null) return `this is ${name}: ${NEEDS_TOKENS}`;
  const isAway = error instanceof Fault && error.type === 'GenerationUnavailable';
  return isAway ? `its own log may say why; ${NEEDS_TOKENS}` : NEEDS_TOKENS;
}

async function checkControl(engine: EngineToCheck, version: string | null): Promise<Found> {
  const { control, within_ms } = engine;
  const remedy =
    version?.endsWith('+simulator') === true
      ? 'for policy updates: start the simulator with --dev-mode true'
      : `for policy updates: ${control.remedies.no_control}, generation.….control where the routes are elsewhere (docs/engines.md)`;
  try {
    const bound = { within_ms, signal: AbortSignal.timeout(within_ms) };
    const { lacks, tells_label } = await control.examine({ cache: 'reset' }, bound);
    if (lacks.length > 0)
      return limited(`weights cannot be changed: no ${lacks.join(', ')}`, remedy);
    const unseen = tells_label ? '' : '; a process that replaces it cannot be detected';
    return ok(`weights can be changed${unseen}`);
  } catch (error) {
    return limited(`weights cannot be changed: ${saidOf(error, engine)}`, remedy);
  }
}

/** Several engines behind one URL: a row would have the version of one and the tokens of the other. */
async function checkIsOne(engine: EngineToCheck): Promise<Found[]> {
  const { control, within_ms } = engine;
  try {
    await control.asOne({ starts: true }, { within_ms, signal: AbortSignal.timeout(within_ms) });
    return [];
  } catch (error) {
    return isShared(error) ? [{ state: 'broken', what: saidOf(error, engine) }] : [];
  }
}

/** Without the URL, which the part names, and with the trial's requests by what they are. */
const saidOf = (error: unknown, { service, within_ms }: EngineToCheck): string =>
  isOfLimit(error)
    ? `no answer within ${within_ms / 1000} s`
    : describeError(error)
        .replaceAll(`${service.replica}: `, '')
        .replaceAll(/\bcompletion probe\.[\d.]+:/g, 'a completion to try it:');

const isOfLimit = (error: unknown): boolean =>
  error instanceof Error && error.name === 'TimeoutError';

const isSlow = (error: unknown): boolean => {
  const { kind } = httpFailureIn(error) ?? {};
  return isOfLimit(error) || kind === 'late' || kind === 'slow';
};

async function remedyOf(error: unknown, engine: EngineToCheck): Promise<string> {
  const { settings, control } = engine;
  const status = error instanceof Fault ? error.status : null;
  const refused = refusedKey(status, settings);
  if (refused !== null) return refused;
  if (isOfTls(error)) return 'mend that where workers run; they wait for it meanwhile';
  if (isSlow(error)) return IS_SLOW;
  if (error instanceof Fault && error.type === 'GenerationRejected' && status === null)
    return 'correct kind or base_urls of the service';
  // Engines answer these two to anybody.
  const isOther = error instanceof Fault && error.type === 'ProtocolError';
  if (status === 404 || isOther) {
    const name = (await otherServer(engine)) ?? 'something';
    const { name: own } = control.remedies;
    return `${name} answers there, and not ${own}: start ${own} (docs/engines.md has the command), or correct base_urls, which end in /v1`;
  }
  return 'start it (docs/engines.md has the command), or correct base_urls; workers wait for it meanwhile';
}

/** What others answer that speak the OpenAI API, and no engine of ours does. */
const Owned = z.object({ data: z.array(z.object({ owned_by: z.string() })).min(1) });
const Info = z.object({ router: z.literal('text-generation-router') });

const OWNERS: Readonly<Record<string, string>> = {
  llamacpp: 'llama.cpp',
  library: 'Ollama',
  organization_owner: 'LM Studio',
};

type Sign = (answer: Answer) => string | undefined;

const SIGNS: readonly [path: string, sign: Sign][] = [
  ['/v1/models', (answer) => OWNERS[Owned.safeParse(jsonOf(answer)).data?.data[0]?.owned_by ?? '']],
  ['/', ({ text }) => (text.startsWith('Ollama is running') ? 'Ollama' : undefined)],
  ['/info', (answer) => (Info.safeParse(jsonOf(answer)).success ? 'TGI' : undefined)],
  // With status 200, for any route that it does not have.
  ['/health', ({ text }) => (/Unexpected endpoint or method/.test(text) ? 'LM Studio' : undefined)],
];

const MOST_BYTES = 2 ** 20;

/** Which known program answers there that is no vLLM; null: none, or it does not say. Never rejects. */
async function otherServer({ service, api_key, within_ms }: EngineToCheck): Promise<string | null> {
  const { exchange, close } = createHttpClient({ connect_timeout_ms: within_ms });
  const headers = api_key === null ? {} : { authorization: `Bearer ${api_key}` };
  const common = { method: 'GET', headers, timeout_ms: within_ms, max_bytes: MOST_BYTES } as const;
  const { signal } = new AbortController();
  const named = async ([path, sign]: (typeof SIGNS)[number]): Promise<string | undefined> => {
    const url = `${serverRoot(service.replica)}${path}`;
    return await exchange({ ...common, url, signal }).then(sign, () => undefined);
  };
  try {
    const found = await Promise.all(SIGNS.map(named));
    return found.find((name) => name !== undefined) ?? null;
  } finally {
    await close();
  }
}
