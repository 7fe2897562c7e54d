import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { Problem } from '../../model/problems.js';
import { parseSample } from '../../model/sample.js';
import { isUpstream } from '../../model/semantics.js';
import type { Dependencies } from '../dependencies.js';
import type { Tasks } from './read-samples.js';
import { collectProblems } from './sample-problems.js';

/** So long planning asks; steps find the problems of the other samples. */
const ASKED_MS = 10_000;
/** Questions at the same time: as many as keep a process per core busy. */
const AT_ONCE = 64;

/**
 * Asks environments about samples, where only a process can tell whether one can be played. It refuses what a step would
 * refuse after the generation. Whatever keeps an environment from telling is left to the steps.
 */
export async function askAboutSamples(
  samples: readonly string[],
  {
    tasks,
    request,
    dependencies,
    signal,
  }: {
    tasks: Tasks;
    request: StoredRequest;
    dependencies: Pick<Dependencies, 'environment'>;
    signal: AbortSignal;
  },
): Promise<void> {
  const asked = new Set([...tasks.keys()].filter((task) => canTell(task, dependencies)));
  if (isUpstream(request.semantics) || asked.size === 0) return;
  const problems = collectProblems(request.samples);
  const late = AbortSignal.timeout(ASKED_MS);
  const ask = async (text: string): Promise<Problem[]> => {
    const sample = parseSample(text);
    if (!asked.has(sample.task_name)) return [];
    const { environment } = dependencies.environment(sample.task_name) ?? {};
    // Its own signal: each question listens to it.
    const own = AbortSignal.any([signal, late]);
    try {
      return (await environment?.askAboutSample?.(sample.extra_env_info ?? {}, own)) ?? [];
    } catch {
      return [];
    }
  };
  let row = 0;
  while (row < samples.length && !late.aborted && !problems.isEnough()) {
    const found = await Promise.all(samples.slice(row, row + AT_ONCE).map(ask));
    signal.throwIfAborted();
    for (const [index, wrong] of found.entries())
      problems.add(
        row + index,
        wrong.map(({ where, what }) => ({ where: `extra_env_info.${where}`, what })),
      );
    row += AT_ONCE;
  }
  if (!problems.isEmpty()) throw problems.fault({ is_all: row >= samples.length });
}

function canTell(task: string, { environment }: Pick<Dependencies, 'environment'>): boolean {
  const deployed = environment(task);
  return deployed?.is_asked === true && deployed.environment.askAboutSample !== undefined;
}
