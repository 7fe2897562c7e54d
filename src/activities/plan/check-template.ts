import { fieldIn } from '../../model/foreign-object.js';
import type { GenerationService } from '../../generation/generation-service.js';
import type { Conversation } from '../../model/turn/template-check.js';
import { templateOf, templateProblem } from '../../model/turn/template-check.js';
import type { GenerationSettings } from '../../model/batch-request.js';
import { observationFormatOf } from '../../model/batch-request.js';
import { invalidBatchRequest } from '../../model/problems.js';
import type { Dependencies } from '../dependencies.js';
import type { Asked } from './asked-once.js';
import { askedOnce } from './asked-once.js';
import type { Prompts } from './read-samples.js';

/** The roles to check for environments that do not declare theirs. */
const USUAL_ROLES = ['environment', 'user', 'tool'] as const;

/**
 * Refuses a batch with chat observations whose template cannot be continued: each turn would have another history than
 * the one that it was sampled from. It asks every replica, for each list of roles in its prompts.
 */
export async function checkTemplate(
  { request, pool, signal, warn }: Asked,
  { prompts, dependencies }: { prompts: Prompts; dependencies: Pick<Dependencies, 'environment'> },
): Promise<void> {
  const { generation, max_rollout_turns } = request;
  if (observationFormatOf(request) === 'bare' || max_rollout_turns === 0) return;
  const goes_on = max_rollout_turns > 1;
  const answers = await askedOnce(() =>
    pool.askEach((service) => problemsOn(service, { generation, goes_on, prompts, dependencies, signal }), signal),
  ); // prettier-ignore
  const found = answers.flatMap(({ replica, answer }) =>
    answer.map(({ what, is_certain }) => ({ what: `${replica}: ${what}`, is_certain })),
  );
  for (const { what, is_certain } of found) if (!is_certain) warn(what);
  const problems = found.filter(({ is_certain }) => is_certain);
  if (problems.length > 0)
    throw invalidBatchRequest(
      problems.map(({ what }) => ({ where: 'generation.observation_format', what })),
    );
}

interface Found {
  what: string;
  /** Only one role fails, and the environment need not use it. */
  is_certain: boolean;
}

interface Questions {
  generation: GenerationSettings;
  goes_on: boolean;
  prompts: Prompts;
  dependencies: Pick<Dependencies, 'environment'>;
  signal: AbortSignal;
}

async function problemsOn(
  service: GenerationService,
  { prompts, dependencies, ...asked }: Questions,
): Promise<Found[]> {
  const found = new Map<string, Found>();
  for (const { task, roles } of prompts.values()) {
    const deployed = dependencies.environment(task);
    const given = deployed?.roles ?? null;
    const prompt = deployed?.environment.begin === undefined ? roles : endingInUser(roles);
    const tried = await Promise.all(
      (given ?? USUAL_ROLES).map((role) => problemOf(service, { prompt, role, ...asked })),
    );
    const problems = tried.filter((what) => what !== null);
    const is_certain = given !== null || problems.length === tried.length;
    for (const what of problems) if (found.get(what)?.is_certain !== true) found.set(what, { what, is_certain });
  } // prettier-ignore
  return [...found.values()];
}

/** An environment with `begin` may add the prompt's last message. */
const endingInUser = (roles: readonly string[]): readonly string[] =>
  roles.at(-1) === 'user' ? roles : [...roles, 'user'];

function problemOf(
  service: GenerationService,
  { generation, signal, ...conversation }: Omit<Conversation, 'thinks'> & Pick<Questions, 'generation' | 'signal'>,
): Promise<string | null> {
  const { model: asked, chat_template_kwargs } = generation;
  const model = asked ?? '';
  const isOff = (name: string): boolean => fieldIn(chat_template_kwargs, name) === false;
  return templateProblem(
    { ...conversation, thinks: !isOff('enable_thinking') && !isOff('thinking') },
    templateOf(service, { model, chat_template_kwargs, signal }),
  );
} // prettier-ignore
