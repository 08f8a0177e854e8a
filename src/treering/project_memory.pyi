from treering.extensions.projects.spaces import delete as delete
from treering.extensions.projects.spaces import get_hipporag_kwargs as get_hipporag_kwargs
from treering.extensions.projects.spaces import index as index
from treering.extensions.projects.spaces import rag_qa as rag_qa
from treering.extensions.projects.spaces import retrieve as retrieve
