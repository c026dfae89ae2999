import { runGroup } from './group';

runGroup('integration', 6, 6);
