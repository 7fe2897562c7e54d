import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject, mapItems } from '../json/exact.js';

/** A value of a metric; objects and lists are not exported. */
export type Scalar = number | boolean | string;

/** A tracking server that takes what a collection was asked, its metrics and its results: upstream's `BaseExporter`. */
export interface Exporter {
  /** By which messages name it. */
  name: string;
  /** Begins a run, with the configuration that it is for. */
  open: (config: JsonObject) => Promise<OpenRun>;
}

export interface OpenRun {
  metrics: (values: ReadonlyMap<string, Scalar>) => Promise<void>;
  /** Results, one JSON text each. */
  rollouts: (results: AsyncIterable<string>) => Promise<void>;
  /** Ends the run. */
  close: () => Promise<void>;
}

/** The runs of all exporters of a configuration. */
export type Upload = Pick<OpenRun, 'metrics' | 'close'> & {
  /** `results` is called once for each exporter. */
  rollouts: (results: () => AsyncIterable<string>) => Promise<void>;
};

/**
 * The texts of an exporter's keys; a text says why nothing is uploaded to `server`: some are missing; null: none is
 * given, but perhaps `beside`, which asks for no upload.
 */
export function settingsIn<Key extends string>(
  config: JsonObject,
  { server, keys, beside }: { server: string; keys: readonly Key[]; beside: Key },
): Record<Key, string> | string | null {
  const given = keys.map((key) => [key, textIn(config, key)] as const);
  if (given.every(([key, value]) => key === beside || value === null)) return null;
  const missing = given.filter(([, value]) => value === null).map(([key]) => key);
  if (missing.length > 0)
    return `nothing is uploaded to ${server}: ${missing.join(' and ')} missing`;
  return Object.fromEntries(given) as Record<Key, string>;
}

/** A key without a value, or with one that was masked, is none. */
export function textIn(config: JsonObject, key: string): string | null {
  const value = config[key];
  return typeof value === 'string' && value !== '' && value !== '****' ? value : null;
}

/**
 * Opens their runs. As upstream's, an exporter that fails costs no result: it is a warning, and one that cannot be opened
 * is left out.
 */
export async function openUpload(
  exporters: readonly Exporter[],
  { config, say }: { config: JsonObject; say: (text: string) => void },
): Promise<Upload> {
  const orWarning = <T>(what: string, work: Promise<T>): Promise<T | null> =>
    work.catch((error: unknown) => {
      say(`WARNING: ${what}; continuing without it: ${describeError(error)}`);
      return null;
    });
  const masked = withoutSecrets(config) as JsonObject;
  const runs: { name: string; run: OpenRun }[] = [];
  for (const { name, open } of exporters) {
    const run = await orWarning(`${name} has no run of this collection`, open(masked));
    if (run !== null) runs.push({ name, run });
  }
  const each = async (what: string, act: (run: OpenRun) => Promise<void>): Promise<void> => {
    for (const { name, run } of runs) await orWarning(`${name} ${what}`, act(run));
  };
  return {
    metrics: (values) => each('has no metrics', (run) => run.metrics(values)),
    rollouts: async (results) => {
      if (runs.length === 0) return;
      say('Uploading rollouts. This may take a few minutes if your data is large.');
      await each('has no rollouts', (run) => run.rollouts(results()));
    },
    close: () => each('has a run that did not end', (run) => run.close()),
  };
}

const SECRET = /token|key/;

/** As upstream masks them: by their names, also in mappings that are in lists. */
const withoutSecrets = (config: Json): Json =>
  mapItems(config, (value, name) => {
    if (isObject(value)) return withoutSecrets(value);
    const isList = Array.isArray(value);
    if (SECRET.test(name)) return isList ? value.map(() => '****') : '****';
    return isList ? value.map((item) => (isObject(item) ? withoutSecrets(item) : item)) : value;
  });
