import type { ForeignObject } from '../model/foreign-object.js';
import type { Problem } from '../model/problems.js';
import { KeptJson, plainOf, readJson, writeJson } from '../platform/json/kept.js';
import { firstLostNumber } from '../platform/json/losses.js';
import { membersOf, objectText } from '../platform/json/members.js';
import type {
  Environment,
  ExactEnvironment,
  FinishedRollout,
  FinishedRollouts,
  Metadata,
} from './environment.js';
import { rejected } from './rejections.js';

/**
 * An environment whose code is JavaScript, which sees plain values: `1.0` is 1. A number that JavaScript cannot hold is
 * refused by its field. What such an environment returns unchanged comes back as it was written.
 */
export function withPlainMetadata(environment: Environment, name: string): ExactEnvironment {
  const read = (metadata: ForeignObject): Metadata => plainMetadata(metadata, name);
  return {
    ...environment,
    async step({ message_log, metadata }, context) {
      const given = read(metadata);
      // Before the environment may change what it was given.
      const text = metadata instanceof KeptJson ? writeJson(given) : null;
      const { metadata: returned = null, ...answer } = await environment.step(
        { message_log, metadata: given },
        context,
      );
      return { ...answer, metadata: returned && asGiven(returned, { kept: metadata, text }) };
    },
    ...(environment.begin && {
      async begin({ message_log, metadata }, context) {
        const given = read(metadata);
        const text = metadata instanceof KeptJson ? writeJson(given) : null;
        const begun = await environment.begin?.({ message_log, metadata: given }, context);
        if (begun === undefined || begun === null) return null;
        return { ...begun, metadata: asGiven(begun.metadata, { kept: metadata, text }) };
      },
    }),
    ...(environment.end && {
      // A session must end, whatever its state has become.
      end: async (metadata, context) =>
        (await environment.end?.(plainOf(metadata), context)) ?? false,
    }),
    ...(environment.globalPostProcessAndMetrics && {
      globalPostProcessAndMetrics: async (rollouts, signal) =>
        (await environment.globalPostProcessAndMetrics?.(plainRollouts(rollouts), signal)) ?? null,
    }),
    sampleProblems: (metadata, context) =>
      numberProblem(metadata) ?? environment.sampleProblems?.(plainOf(metadata), context) ?? [],
    ...(environment.askAboutSample && {
      askAboutSample: async (metadata, signal) =>
        (await environment.askAboutSample?.(plainOf(metadata), signal)) ?? [],
    }),
  };
}

function plainMetadata(metadata: ForeignObject, name: string): Metadata {
  const problems = numberProblem(metadata);
  if (problems !== null) throw rejected({ subject: `metadata for environment ${name}`, problems });
  return plainOf(metadata);
}

function numberProblem(metadata: ForeignObject): Problem[] | null {
  const lost = metadata instanceof KeptJson ? firstLostNumber(metadata.text) : null;
  if (lost === null) return null;
  const got = lost.got.length > 40 ? `${lost.got.slice(0, 40)}...` : lost.got;
  const what = `expected a number that JavaScript holds exactly (this environment runs in it), got ${got}; write it as a string`;
  return [{ where: lost.path.join('.'), what }];
}

/** `text`: of what the environment was given, if it was given another form of `kept`. */
function asGiven(
  returned: Metadata,
  { kept, text }: { kept: ForeignObject; text: string | null },
): ForeignObject {
  if (!(kept instanceof KeptJson) || text === null) return returned;
  const now = writeJson(returned);
  if (now === text) return kept;
  const [exact, given, fields] = [kept.text, text, now].map(membersOf);
  if (!exact || !given || !fields) return returned;
  const inOrder = new Set([
    ...[...exact.keys()].filter((name) => fields.has(name)),
    ...fields.keys(),
  ]);
  const merged = Array.from(inOrder, (name): [string, string] => {
    const field = fields.get(name) ?? 'null';
    return [name, given.get(name) === field ? (exact.get(name) ?? field) : field];
  });
  return readJson(objectText(merged)) as ForeignObject;
}

async function* plainRollouts(
  rollouts: FinishedRollouts<ForeignObject>,
): AsyncGenerator<FinishedRollout> {
  for await (const rollout of rollouts)
    yield { ...rollout, extra_env_info: plainOf(rollout.extra_env_info) };
}
