import { runGroup } from './group';

runGroup('integration', 5, 6);
