import { type ForeignObject, membersIn } from '../model/foreign-object.js';
import type { Problem } from '../model/problems.js';
import { KeptJson, plainOf } from '../platform/json/kept.js';
import { firstLostNumber } from '../platform/json/losses.js';
import { type Members, objectText } from '../platform/json/members.js';
import type {
  Environment,
  ExactEnvironment,
  FinishedRollout,
  FinishedRollouts,
  Metadata,
} from './environment.js';
import { rejected } from './rejections.js';

/** An environment whose code is JavaScript: a number that it cannot hold is refused, what it returns unchanged stays. */
export function withPlainMetadata(environment: Environment, name: string): ExactEnvironment {
  const read = (metadata: ForeignObject): Metadata => {
    const problems = numberProblem(metadata);
    if (problems === null) return plainOf(metadata);
    throw rejected({ subject: `metadata for environment ${name}`, problems });
  };
  return {
    ...environment,
    async step({ message_log, metadata }, context) {
      const { metadata: returned = null, ...answer } = await environment.step(
        { message_log, metadata: read(metadata) },
        context,
      );
      return { ...answer, metadata: returned && asGiven(returned, metadata) };
    },
    ...(environment.begin && {
      async begin({ message_log, metadata }, context) {
        const given = { message_log, metadata: read(metadata) };
        const begun = await environment.begin?.(given, context);
        if (begun === undefined || begun === null) return null;
        return { ...begun, metadata: asGiven(begun.metadata, metadata) };
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

function numberProblem(metadata: ForeignObject): Problem[] | null {
  const lost = metadata instanceof KeptJson ? firstLostNumber(metadata.text) : null;
  if (lost === null) return null;
  const got = lost.got.length > 40 ? `${lost.got.slice(0, 40)}...` : lost.got;
  const what = `expected a number that JavaScript holds exactly (this environment runs in it), got ${got}; write it as a string`;
  return [{ where: lost.path.join('.'), what }];
}

/** Fields that the environment returns as it was given them stand as they came, and where they came. */
function asGiven(returned: Metadata, came: ForeignObject): ForeignObject {
  let fields: Members;
  try {
    fields = membersIn(returned);
  } catch {
    // What JSON cannot hold: the journal refuses it.
    return returned;
  }
  const given = membersIn(plainOf(came));
  const merged = new Map<string, string>();
  for (const [name, text] of membersIn(came)) {
    const field = fields.get(name);
    if (field !== undefined) merged.set(name, field === given.get(name) ? text : field);
  }
  for (const [name, field] of fields) if (!merged.has(name)) merged.set(name, field);
  return new KeptJson(objectText(merged));
}

async function* plainRollouts(
  rollouts: FinishedRollouts<ForeignObject>,
): AsyncGenerator<FinishedRollout> {
  for await (const rollout of rollouts)
    yield { ...rollout, extra_env_info: plainOf(rollout.extra_env_info) };
}
