import { fieldIn } from '../../model/foreign-object.js';
import type { GenerationService } from '../../generation/generation-service.js';
import type { CheckedTemplate, Conversation } from '../../model/turn/template-check.js';
import { promptProblem, templateOf, templateProblem } from '../../model/turn/template-check.js';
import { observationFormatOf } from '../../model/batch-request.js';
import { invalidBatchRequest } from '../../model/problems.js';
import type { Dependencies } from '../dependencies.js';
import type { AskedEngines } from './ask-engines.js';
import { askedOnce, refuseField } from './ask-engines.js';
import type { Prompts } from './read-samples.js';
import { placeOf } from './sample-problems.js';

/** The roles to check for environments that do not declare theirs. */
const USUAL_ROLES = ['environment', 'user', 'tool'] as const;

/** With how many lists of roles each replica's template is continued. */
const MOST_CONTINUED = 8;

/**
 * Refuses samples whose prompt the chat template refuses, by row, however many turns follow: `system` twice, say. It
 * asks every replica for each list of roles, with other texts; a template may still refuse a sample's own text.
 */
export async function checkPrompts(
  { request: { generation, samples }, pool, signal }: AskedEngines,
  { prompts, dependencies }: { prompts: Prompts; dependencies: Pick<Dependencies, 'environment'> },
): Promise<void> {
  if (generation.prompt_format === 'raw') return;
  const lists = [...prompts.values()].filter(
    ({ is_rendered, roles }) => is_rendered && roles.length > 0,
  );
  const { model, chat_template_kwargs } = generation;
  const template = { model: model ?? '', chat_template_kwargs, signal };
  const refusals = (service: GenerationService) =>
    Promise.all(
      lists.map((list) =>
        promptProblem(promptOf(list, dependencies), templateOf(service, template)),
      ),
    );
  const answers = await askedOnce(() => pool.askEach(refusals, signal));
  const problems = lists.flatMap(({ rows }, k) => {
    const refused = answers.flatMap(({ answer }) => answer[k] ?? []).slice(0, 1);
    return refused.map((what) => ({
      where: placeOf(rows, { where: 'message_log', samples }),
      what,
    }));
  });
  if (problems.length > 0) throw invalidBatchRequest(problems);
}

/**
 * Refuses a batch with chat observations whose template cannot be continued: each turn would have another history than
 * the one that it was sampled from. It asks every replica, for each list of roles in its prompts.
 */
export async function checkTemplate(
  { request, pool, signal, warn }: AskedEngines,
  { prompts, dependencies }: { prompts: Prompts; dependencies: Pick<Dependencies, 'environment'> },
): Promise<void> {
  const { generation, max_rollout_turns } = request;
  if (observationFormatOf(request) === 'bare' || max_rollout_turns === 0) return;
  const { model, chat_template_kwargs } = generation;
  const isOff = (name: string): boolean => fieldIn(chat_template_kwargs, name) === false;
  const conversation = {
    goes_on: max_rollout_turns > 1,
    thinks: !isOff('enable_thinking') && !isOff('thinking'),
  };
  const conversations = [...prompts.values()].slice(0, MOST_CONTINUED).map((asked) => ({
    ...conversation,
    prompt: promptOf(asked, dependencies),
    given: dependencies.environment(asked.task)?.roles ?? null,
  }));
  const template = { model: model ?? '', chat_template_kwargs, signal };
  const problems = (service: GenerationService) =>
    problemsOf(conversations, templateOf(service, template));
  const answers = await askedOnce(() => pool.askEach(problems, signal));
  const found = answers.flatMap(({ replica, answer }) =>
    answer.map(({ what, is_certain }) => ({ what: `${replica}: ${what}`, is_certain })),
  );
  for (const { what, is_certain } of found) if (!is_certain) warn(what);
  refuseField(
    'generation.observation_format',
    found.map(({ what, is_certain }) => (is_certain ? what : null)),
  );
}

interface Found {
  what: string;
  /** Only one role fails, and the environment need not use it. */
  is_certain: boolean;
}

/** `given`: the roles of the environment's observations; null: it does not declare them. */
async function problemsOf(
  conversations: readonly (Omit<Conversation, 'role'> & { given: readonly string[] | null })[],
  template: CheckedTemplate,
): Promise<Found[]> {
  const found = new Map<string, Found>();
  for (const { given, ...conversation } of conversations) {
    const tried = await Promise.all(
      (given ?? USUAL_ROLES).map((role) => templateProblem({ ...conversation, role }, template)),
    );
    const problems = tried.filter((what) => what !== null);
    const is_certain = given !== null || problems.length === tried.length;
    for (const what of problems)
      if (found.get(what)?.is_certain !== true) found.set(what, { what, is_certain });
  }
  return [...found.values()];
}

/** An environment with `begin` may add the prompt's last message. */
function promptOf(
  { task, roles }: { task: string; roles: readonly string[] },
  { environment }: Pick<Dependencies, 'environment'>,
): readonly string[] {
  const begins = environment(task)?.environment.begin !== undefined;
  return begins && roles.at(-1) !== 'user' ? [...roles, 'user'] : roles;
}
