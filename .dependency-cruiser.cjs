/** Which room may import which: along the data path, never back. A room is a folder; no file is an exception. */
const room = (name, ...imports) => ({
  name: `${name}-imports`,
  severity: 'error',
  comment: `${name} imports ${imports.length > 0 ? imports.join(', ') : 'nothing of the project'} and itself`,
  from: { path: `^${name}/` },
  to: { path: '^(src|gym|demos)/', pathNot: [name, ...imports].map((one) => `^${one}[/.]`) },
});

/** What activities see of the services they use. */
const INTERFACES = [
  'src/generation/generation-service',
  'src/generation/weight-control',
  'src/environments/environment',
  'src/gateway/agent-session',
  'src/trajectories/trajectory-store',
];

module.exports = {
  forbidden: [
    room('src/platform'),
    room('src/model', 'src/platform'),
    room(
      'src/workflows',
      'src/model',
      'src/activities/contract',
      'src/platform/plain',
      'src/platform/json/depth',
      'src/platform/json/kept',
    ),
    room('src/generation', 'src/model', 'src/platform'),
    room('src/environments', 'src/model', 'src/platform'),
    room('src/trajectories', 'src/model', 'src/platform'),
    room('src/sampling', 'src/generation/generation-service', 'src/model', 'src/platform'),
    room('src/gateway', 'src/sampling', 'src/model', 'src/platform'),
    room(
      'src/activities',
      'src/sampling',
      'src/gateway/engine',
      'src/model',
      'src/platform',
      ...INTERFACES,
    ),
    room(
      'src/workers',
      'src/activities',
      'src/gateway',
      'src/generation',
      'src/environments',
      'src/trajectories',
      'src/model',
      'src/platform',
    ),
    room(
      'src/client',
      'src/activities/contract',
      'src/trajectories/trajectory-store',
      'src/model',
      'src/platform',
    ),
    room('src/dev', 'src/client', 'src/workers', 'src/model', 'src/platform'),
    room('demos', 'src/dev', 'src/client', 'src/workers', 'src/platform'),
    room(
      'gym',
      'src/client',
      'src/dev',
      'src/workers',
      'src/trajectories',
      'src/environments/gym-agent',
      'src/model',
      'src/platform',
    ),
    room(
      'src/cli',
      'gym/cli',
      'demos',
      'src/dev',
      'src/client',
      'src/workers',
      'src/environments',
      'src/trajectories/trajectory-store',
      'src/model',
      'src/platform',
    ),
    {
      name: 'workflows-run-what-is-workflow-safe',
      severity: 'error',
      comment: 'all else is types: zod alone would cost each cached workflow 600 kB',
      from: { path: '^src/workflows/' },
      to: {
        path: '^src/(model|activities)/',
        pathNot: '^src/model/workflow-safe/',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'workflow-safe-is-pure',
      severity: 'error',
      comment: 'no zod, no Node: it runs inside workflows',
      from: {
        path: '^src/(model/workflow-safe/|platform/(plain|utf8|json/(depth|kept|losses|members|order))\\.)',
      },
      to: {
        pathNot: [
          '^src/model/workflow-safe/',
          '^src/platform/(plain|utf8|json/(depth|kept|losses|members|order))\\.',
          '^node_modules/ms/',
        ],
      },
    },
    {
      name: 'workflows-run-on-the-sdk-alone',
      severity: 'error',
      from: { path: '^src/workflows/' },
      to: { pathNot: ['^src/', '^node_modules/@temporalio/workflow/'] },
    },
    {
      name: 'services-know-no-temporal',
      severity: 'error',
      from: {
        path: '^src/(platform|model|generation|sampling|gateway|environments|trajectories|dev/simulator)/',
      },
      to: { path: '^node_modules/@temporalio/' },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
  ],
  options: {
    tsPreCompilationDeps: 'specify',
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^gym/test/' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
};
