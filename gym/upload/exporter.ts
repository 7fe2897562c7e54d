import { describeError } from '../../src/platform/errors.js';
import type { JsonObject } from '../json/exact.js';
import { isObject as isMapping } from '../json/exact.js';

/** A value of a metric; objects and lists are not exported. */
export type Scalar = number | boolean | string;

/** A tracking server that takes what a collection was asked, its metrics and its results: upstream's `BaseExporter`. */
export interface Exporter {
  /** By which messages name it. */
  name: string;
  /** Begins a run, with the configuration that it is for. */
  open: (config: JsonObject) => Promise<void>;
  metrics: (values: ReadonlyMap<string, Scalar>) => Promise<void>;
  /** Results, one JSON text each. */
  rollouts: (results: AsyncIterable<string>) => Promise<void>;
  /** Ends the run. */
  close: () => Promise<void>;
}

/** All exporters of a configuration. */
export type Upload = Pick<Exporter, 'metrics' | 'close'> & {
  /** `results` is called once for each exporter. */
  rollouts: (results: () => AsyncIterable<string>) => Promise<void>;
};

/** Why nothing is uploaded to `server`: the fields that are null. */
export function notUploaded(server: string, fields: Record<string, string | null>): string {
  const missing = Object.entries(fields).filter(([, value]) => value === null);
  return `nothing is uploaded to ${server}: ${missing.map(([name]) => name).join(' and ')} missing`;
}

/**
 * Opens them. As upstream's, an exporter that fails costs no result: it is a warning, and one that cannot be opened is
 * left out.
 */
export async function openUpload(
  exporters: readonly Exporter[],
  { config, say }: { config: JsonObject; say: (text: string) => void },
): Promise<Upload> {
  const each = async (
    what: string,
    { of, act }: { of: readonly Exporter[]; act: (exporter: Exporter) => Promise<void> },
  ): Promise<Exporter[]> => {
    const done: Exporter[] = [];
    for (const exporter of of) {
      try {
        await act(exporter);
        done.push(exporter);
      } catch (error) {
        say(`WARNING: ${exporter.name} ${what}; continuing without it: ${describeError(error)}`);
      }
    }
    return done;
  };
  const masked = withoutSecrets(config);
  const act = (exporter: Exporter) => exporter.open(masked);
  const opened = await each('has no run of this collection', { of: exporters, act });
  return {
    metrics: async (values) => {
      await each('has no metrics', { of: opened, act: (exporter) => exporter.metrics(values) });
    },
    rollouts: async (results) => {
      if (opened.length === 0) return;
      say('Uploading rollouts. This may take a few minutes if your data is large.');
      await each('has no rollouts', {
        of: opened,
        act: (exporter) => exporter.rollouts(results()),
      });
    },
    close: async () => {
      await each('has a run that did not end', { of: opened, act: (exporter) => exporter.close() });
    },
  };
}

const SECRET = /token|key/;

/** As upstream masks them: by their names. */
function withoutSecrets(config: JsonObject): JsonObject {
  const hidden = Object.entries(config).map(([name, value]): [string, JsonObject[string]] => {
    if (isMapping(value)) return [name, withoutSecrets(value)];
    if (!SECRET.test(name)) {
      const items = Array.isArray(value) ? value : null;
      return [name, items?.map((item) => (isMapping(item) ? withoutSecrets(item) : item)) ?? value];
    }
    return [name, Array.isArray(value) ? value.map(() => '****') : '****'];
  });
  return Object.fromEntries(hidden);
}
