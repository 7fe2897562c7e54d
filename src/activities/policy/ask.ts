import type {
  Bound,
  EngineSettings,
  Remedies,
  WeightControl,
} from '../../generation/weight-control.js';
import { Fault, isStoreFault, isUnavailable } from '../../model/faults.js';
import type { CacheRule, Weights } from '../../model/policy/orders.js';
import { textOfFaults } from '../../model/workflow-safe/policy.js';
import { refused, withoutUrl } from './policy-service.js';

/** For one question to an otherwise idle engine. */
export const QUESTION_MS = 10_000;

/**
 * Does something with each engine at once. Returns the faults of those with which it failed, by URL; what is no engine's
 * fault, such as that the store is away, fails all of it.
 */
export async function faultsOf<T extends { url: string }>(
  engines: readonly T[],
  { run, signal }: { run: (engine: T) => Promise<void>; signal: AbortSignal },
): Promise<Record<string, Fault>> {
  const faults: Record<string, Fault> = {};
  await Promise.all(
    engines.map(async (engine) => {
      try {
        await run(engine);
      } catch (error) {
        if (!(error instanceof Fault) || isStoreFault(error)) throw error;
        faults[engine.url] = error;
      }
    }),
  );
  signal.throwIfAborted();
  return faults;
}

/** Why, by URL, in messages that do not begin with it. */
export const textsOf = (faults: Readonly<Record<string, Fault>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(faults).map(([url, { message }]) => [url, withoutUrl(message, url)]),
  );

export interface Answers<T> {
  /** By URL, in the order of the engines. */
  answers: [string, T][];
  /** Why the others do not answer, by URL. */
  away: Record<string, Fault>;
}

/**
 * Asks all engines at once, each again if it does not answer: a server under load closes connections that the next
 * question finds open. One that says that it cannot do what is asked of it refuses the whole update, unless it may.
 */
export async function askAll<T>(
  controls: readonly WeightControl[],
  asking: {
    ask: (control: WeightControl) => Promise<T>;
    signal: AbortSignal;
    mayRefuse?: (url: string) => boolean;
  },
): Promise<Answers<T>> {
  const { ask, signal, mayRefuse = () => false } = asking;
  const found = new Map<string, T>();
  const engines = controls.map((control) => ({ url: control.replica, control }));
  const run = async ({ url, control }: (typeof engines)[number]): Promise<void> => {
    const again = (error: unknown): Promise<T> => {
      if (!isUnavailable(error)) throw error;
      return ask(control);
    };
    found.set(url, await ask(control).catch(again));
  };
  const away = await faultsOf(engines, { run, signal });
  const refusals = Object.entries(away)
    .filter(([url, fault]) => !isUnavailable(fault) && !mayRefuse(url))
    .map(([, { message }]) => message);
  if (refusals.length > 0) throw refused(refusals.join('; '));
  const there = engines.filter(({ url }) => found.has(url));
  return { answers: there.map(({ url }) => [url, found.get(url) as T]), away };
}

/** The same; refuses the update also if none answers. */
export async function askSome<T>(...given: Parameters<typeof askAll<T>>): Promise<Answers<T>> {
  const asked = await askAll(...given);
  if (asked.answers.length > 0) return asked;
  throw refused(`no replica answers: ${textOfFaults(textsOf(asked.away))}`);
}

export const remedyOf = (
  { remedies: { name, flags } }: Pick<WeightControl, 'remedies'>,
  what: keyof Remedies['flags'],
): string => `${name}: ${flags[what]}`;

/** What a server must have been started with, so that weights of a kind can be brought to it. */
export function checkRoutes(
  control: WeightControl,
  { lacks, kind = 'checkpoint' }: { lacks: readonly string[]; kind?: Weights['kind'] },
): void {
  if (lacks.length === 0) return;
  const remedy = remedyOf(control, kind === 'lora' ? 'adapters' : 'routes');
  throw refused(`${control.replica} lacks ${lacks.join(', ')} (${remedy})`);
}

/**
 * An engine holds the adapters that streams may use, and the next one. vLLM with fewer places swaps them in turns, from
 * folders that may be gone. One that does not say how many it has is not refused.
 */
export function checkPlaces(
  control: WeightControl,
  { keep_adapters, places }: { keep_adapters: number; places: EngineSettings['adapter_places'] },
): void {
  const needed = keep_adapters + 1;
  if (places !== null && places < needed)
    throw refused(
      `${control.replica} has too few places for adapters (${remedyOf(control, 'places')}): expected at least ${needed}, for keep_adapters ${keep_adapters} and the next one, got ${places}`,
    );
}

/** Engines' names for caches in numbers that need no scales. */
const PLAIN = ['auto', 'float32', 'float16', 'half', 'bfloat16', 'bf16'];

/** A quantised cache has scales of the weights that filled it, so it goes when they go. */
export function checkCache(
  url: string,
  { cache, cache_dtype }: { cache: CacheRule } & Pick<EngineSettings, 'cache_dtype'>,
): void {
  if (cache === 'keep' && cache_dtype !== null && !PLAIN.includes(cache_dtype))
    throw refused(
      `cache: expected "reset" for ${url}, got "keep": its cache is quantised (${cache_dtype}) with scales of the old weights`,
    );
}

/** Whether `asOne` says that several engines answer. A refused key has a status. */
export const isShared = (error: unknown): error is Fault =>
  error instanceof Fault && error.type === 'GenerationRejected' && error.status === null;

/**
 * Throws for an engine that several URLs lead to: it would be paused, loaded and resumed twice at once, and its streams
 * have two labels. Processes are told apart by when they started and by their processor time, which one process has
 * between what it had and what it has. One that says neither is not known.
 */
export async function checkOneUrlEach(
  controls: readonly WeightControl[],
  bound: Bound,
): Promise<void> {
  const signs = await Promise.all(
    controls.map(async (control) => ({ control, sign: await signOf(control, bound) })),
  );
  for (const [i, { control, sign }] of signs.entries())
    for (const earlier of signs.slice(0, i)) {
      if (sign === null || earlier.sign?.started !== sign.started) continue;
      if (!(await areOne([earlier.control, control], bound))) continue;
      throw refused(
        `${control.replica}: expected each engine once, got the process that answers at ${earlier.control.replica}, too: leave one of the two URLs out`,
      );
    }
}

async function areOne([a, b]: [WeightControl, WeightControl], bound: Bound): Promise<boolean> {
  const before = await signOf(a, bound);
  const between = await signOf(b, bound);
  const after = await signOf(a, bound);
  if (before === null || between === null || after === null) return false;
  return before.cpu_s <= between.cpu_s && between.cpu_s <= after.cpu_s;
}

/** null: it does not say, or does not answer. */
async function signOf(
  control: WeightControl,
  bound: Bound,
): Promise<Awaited<ReturnType<WeightControl['processSign']>>> {
  try {
    return await control.processSign(bound);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}
