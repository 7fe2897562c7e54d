import { EnvironmentSettings } from '../../../src/environments/registry.js';
import type { WorkerConfig } from '../../../lab/bed/worker.js';
import type { ScriptedEngine } from '../../servers/scripted-engine.js';
import type { EnvironmentKind, GoldenCase } from './case.js';
import { environmentKind, readGoldenCase, readGoldenFiles } from './case.js';
import { exceptionOf } from './exceptions.js';
import { checkFailure } from './expected-failure.js';
import { checkRows } from './expected-rows.js';
import { checkTraffic } from './expected-traffic.js';
import type { Stage } from './play.js';
import { contextLength, play, serviceName } from './play.js';

export interface RecordedRun {
  golden: GoldenCase;
  kind: EnvironmentKind;
  /** Why it is not played. */
  exception: string | null;
}

/** Every recorded case of one of upstream's loops. */
export const recordedRuns = (semantics: GoldenCase['semantics']): RecordedRun[] =>
  readGoldenFiles()
    .filter((file) => file.kind !== 'function' && file.semantics === semantics)
    .map((file) => {
      const golden = readGoldenCase(file.name);
      return { golden, kind: environmentKind(golden), exception: exceptionOf(file) };
    });

/** Plays a case as a batch; the batch has to come out as upstream's loop recorded it. */
export async function checkRun(golden: GoldenCase, stage: Stage): Promise<void> {
  const played = await play(golden, stage);
  if (golden.expected.error !== undefined) {
    checkFailure(golden, played);
  } else {
    checkRows(golden, played);
    checkTraffic(golden, played);
  }
}

/** What a worker that plays these runs has: a service for each length of context, and their environments. */
export async function settingsOf(
  runs: readonly RecordedRun[],
  { engine, url }: { engine: ScriptedEngine; url: string },
): Promise<Pick<WorkerConfig, 'generation' | 'environments'>> {
  const lengths = [...new Set(runs.map(({ golden }) => contextLength(golden)))];
  const services = lengths.map(async (length) => {
    const base_urls = [await engine.listen(length)];
    return [serviceName(length), { kind: 'vllm' as const, base_urls }] as const;
  });
  const environments = runs.flatMap(({ golden, kind }) =>
    golden.script.environment.task_names.map((task) => [task, environmentOf(kind, url)] as const),
  );
  return {
    generation: Object.fromEntries(await Promise.all(services)),
    environments: Object.fromEntries(environments),
  };
}

const environmentOf = (kind: EnvironmentKind, url: string): EnvironmentSettings =>
  EnvironmentSettings.parse(kind === 'http' ? { kind, url, timeout: '30s' } : { kind });
